"""Describing what lies at a path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import FormatError
from ..formats.cbi import CbiFile
from ..formats.colibri import ColibriFile
from .checkpoint import Checkpoint, open_checkpoint
from .containers import open_container


def inspect_path(path: Path) -> dict[str, Any]:
    """Facts about a checkpoint folder or an expert container, by name, in the order to print them.

    Opening checks everything that can be checked without reading values; FormatError says what is
    wrong.
    """
    if path.is_dir():
        with open_checkpoint(path) as checkpoint:
            return _checkpoint(checkpoint)
    if not path.exists():
        raise FormatError("there is nothing at this path", path=path)
    with open_container(path) as file:
        return _colibri(file) if isinstance(file, ColibriFile) else _cbi(file)


def _checkpoint(checkpoint: Checkpoint) -> dict[str, Any]:
    config, moe = checkpoint.config, checkpoint.config.moe
    sizes = [checkpoint.expert_bytes(layer) for layer in range(config.num_moe_layers)]
    files = checkpoint.files
    stored = sum(files.num_bytes(name) for name in files.names)
    rule = moe.rule
    return {
        "kind": "checkpoint",
        "path": str(checkpoint.path),
        "architecture": checkpoint.family.architecture,
        "num_layers": config.num_layers,
        "num_moe_layers": config.num_moe_layers,
        "num_experts": moe.num_experts,
        "top_k": moe.top_k,
        "hidden_size": config.hidden_size,
        "intermediate_size": moe.intermediate_size,
        "num_heads": config.num_heads,
        "num_kv_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "vocab_size": config.vocab_size,
        "max_seq_len": config.max_seq_len,
        "routing": f"{rule.order}, {rule.scoring}, "
        f"{'' if rule.renormalize else 'not '}renormalised",
        "dtypes": sorted({files.dtype(name).name for name in files.names}),
        "tensors": len(files.names),
        "files": len(files.file_paths),
        "stored_bytes": stored,
        "expert_bytes": max(sizes),
        "experts_bytes": sum(sizes) * moe.num_experts,
        "experts_share": round(sum(sizes) * moe.num_experts / stored, 4),
        "tokenizer": "yes" if checkpoint.tokenizer is not None else "none",
        "fingerprint": checkpoint.fingerprint,
    }


def _colibri(file: ColibriFile) -> dict[str, Any]:
    header = file.header
    return {
        "kind": ".colibri",
        "path": str(file.path),
        "num_layers": header.num_layers,
        "num_experts": header.num_experts,
        "top_k": header.top_k,
        "hidden_size": header.hidden_size,
        "intermediate_size": header.intermediate_size,
        "dtype": header.dtype.name,
        "header_bytes": file.header_bytes,
        "expert_bytes": header.expert_bytes,
        "file_bytes": file.header_bytes + header.payload_bytes,
    }


def _cbi(file: CbiFile) -> dict[str, Any]:
    header = file.header
    in_order = (file.routing_table.ravel()[1:] > file.routing_table.ravel()[:-1]).all()
    return {
        "kind": ".cbi",
        "path": str(file.path),
        "num_layers": header.num_layers,
        "num_experts": header.num_experts,
        "top_k": header.top_k,
        "hidden_size": header.hidden_size,
        "intermediate_size": header.intermediate_size,
        "dtype": "int8" if header.scales_per_expert else "float32",
        "scales_per_expert": header.scales_per_expert,
        "router_bias": "yes" if header.has_bias else "none",
        "order": "by layer and expert" if in_order else "rearranged",
        "expert_bytes": header.expert_bytes,
        "expert_size": header.expert_stride,
        "alignment": header.alignment,
        "weights_offset": header.weights_offset,
        "file_bytes": header.file_bytes,
    }
