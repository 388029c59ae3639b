"""Recorded reading is what the model does with the whole text at once."""

from dataclasses import replace

import numpy as np
import pytest

from colibri_lab.errors import InputError
from colibri_lab.models import load_model
from colibri_lab.traces.record import record_reading
from colibri_lab.traces.suspicions import suspicions
from tests.support import write_checkpoint


def test_reading_routes_as_the_whole_text_does(tmp_path):
    write_checkpoint(tmp_path)
    model = load_model(tmp_path)
    texts = [list(range(20)), list(range(30, 50))]
    trace = record_reading(model, texts, num_prefill=4)
    for request, ids in enumerate(texts):
        whole = model.forward(ids, trace=True).trace
        mine = trace.request == request
        for layer in range(2):
            found = trace.expert[mine & (trace.layer == layer)]
            assert np.array_equal(found, whole.expert[whole.layer == layer])
    assert (trace.phase == 0).sum() == 2 * 4 * 2 * 2
    assert "teacher-forced" in trace.source
    assert not any("sorted by phase" in text for text in suspicions(trace))
    unsaid = replace(trace, source="")
    assert any("sorted by phase" in text for text in suspicions(unsaid))


@pytest.mark.parametrize(("requests", "prefill"), [([], 1), ([[1, 2]], 2), ([[1, 2]], 0)])
def test_texts_that_are_too_short(tmp_path, requests, prefill):
    write_checkpoint(tmp_path)
    with pytest.raises(InputError, match="too short"):
        record_reading(load_model(tmp_path), requests, prefill)
