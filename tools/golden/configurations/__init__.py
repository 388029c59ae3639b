"""The small random models, a table a family."""

from .deepseek import DEEPSEEK_V1, DEEPSEEK_V2, DEEPSEEK_V3
from .gpt_oss import GPT_OSS
from .mixtral import MIXTRAL
from .olmoe import OLMOE
from .qwen import QWEN2_MOE, QWEN3_MOE
from .random_model import RandomModel

ALL: dict[str, RandomModel] = {
    **MIXTRAL,
    **QWEN2_MOE,
    **QWEN3_MOE,
    **OLMOE,
    **DEEPSEEK_V1,
    **DEEPSEEK_V2,
    **DEEPSEEK_V3,
    **GPT_OSS,
}

__all__ = ["ALL", "RandomModel"]
