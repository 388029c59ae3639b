"""The sweep panel through its buttons, without a browser."""

import time

import pytest

from colibri_lab.viz.widgets import SweepPanel
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
