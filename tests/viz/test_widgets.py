"""The sweep panel through its buttons, without a browser."""

import time

import pandas as pd
import pytest

from colibri_lab.viz.widgets import SweepPanel, latency_picture
from tests.support import write_checkpoint


@pytest.fixture
def panel(tmp_path):
    write_checkpoint(tmp_path / "model")
    return SweepPanel(tmp_path / "model", out=tmp_path / "run", inputs="random")


def test_run_draws_and_reports(panel):
    panel.repeats.value = 5
    panel.run_button.click()
    assert panel.run_button.disabled
    assert not panel.cancel_button.disabled
    panel.wait()
    assert not panel.run_button.disabled
    assert panel.progress.value == panel.progress.max == 6
    assert "6 of 6 cells" in panel.status.value
    assert bytes(panel.picture.value).startswith(b"\x89PNG")
    assert len(panel.result.frame) == 6


def test_cancel_acts_at_once_and_run_goes_on(panel):
    panel.repeats.value = 200
    panel.batch_size.value = (1, 2, 4, 8, 16)
    panel.run_button.click()
    while panel.progress.value == 0:
        time.sleep(0.01)
    start = time.monotonic()
    panel.cancel_button.click()
    panel.wait()
    assert time.monotonic() - start < 2.0
    assert "Stopped" in panel.status.value
    done = len(panel.result.frame)
    assert 1 <= done < 10
    panel.run_button.click()
    panel.wait()
    assert f"({done} reused)" in panel.status.value
    assert len(panel.result.frame) == 10


def test_an_error_is_shown(panel):
    panel.capacity.value = ()
    panel.run_button.click()
    panel.wait()
    assert "capacity" in panel.status.value
    assert not panel.run_button.disabled


def test_every_control_is_described(panel):
    controls = [panel.batch_size, panel.top_k, panel.streams, panel.capacity, panel.repeats]
    assert all(control.description for control in controls)
    assert panel.run_button.tooltip
    assert not panel.repeats.continuous_update


def test_the_picture_says_what_it_takes_of_several_cells():
    frame = pd.DataFrame(
        {
            "batch_size": [1, 4],
            "top_k": [2, 2],
            "stream_count": [1, 1],
            "latency_p50_ms": [1.0, 3.0],
        }
    )
    (axes,) = latency_picture(frame).axes
    assert (axes.get_ylabel(), axes.get_title()) == ("median latency, ms", "")
    more = frame.assign(stream_count=2, latency_p50_ms=[0.5, 4.0])
    (axes,) = latency_picture(pd.concat([frame, more])).axes
    assert axes.get_ylabel() == "lowest median latency, ms"
    assert axes.get_title() == "The fastest of a point's cells"
    assert axes.get_lines()[0].get_ydata().tolist() == [0.5, 3.0]
