"""Controls for notebooks: a sweep that runs in the background, and can be stopped."""

from __future__ import annotations

import io
import threading
import time
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets
from matplotlib.figure import Figure

from ..experiments import Progress, Run, Sweep
from ..models import load_config
from . import plots
from .select import measured, refuse_emulated, timed
from .theme import LIGHT, new_figure, themed

if TYPE_CHECKING:
    import pandas as pd

REDRAW_S = 0.4  # between two pictures, at the least
CAPACITIES = ("none", "hard:1.0", "hard:2.0", "soft:1.25")
BATCHES = (1, 2, 4, 8, 16)


class SweepPanel(widgets.VBox):
    """Choose a grid, run it, watch latency against batch size, stop it.

    model : a checkpoint folder.   out : the run folder; running again goes on with what is missing.
    `run_now`, `cancel` and `wait` are what the buttons do, for tests and scripts.
    """

    def __init__(
        self, model: str | Path, out: str | Path = "out/panel-sweep", **changes: Any
    ) -> None:
        self._model, self._out, self._changes = model, Path(out), changes
        self._cancel, self._thread = threading.Event(), threading.Thread()
        self._drawn_s = 0.0
        self.result: Run | None = None
        self._build(load_config(model).moe.num_experts)
        super().__init__([
            widgets.HBox([self.batch_size, self.top_k, self.streams, self.capacity]),
            self.repeats,
            widgets.HBox([self.run_button, self.cancel_button]),
            self.progress,
            self.status,
            self.picture,
        ])  # fmt: skip

    def _build(self, num_experts: int) -> None:
        ks = [k for k in (1, 2, 4, 8) if k <= num_experts]
        self.batch_size = _choices("batch size", BATCHES, BATCHES[:3])
        self.top_k = _choices("top-k", ks, ks[:2])
        self.streams = _choices("streams", (1, 2), (1,))
        self.capacity = _choices("capacity", CAPACITIES, CAPACITIES[:1])
        self.repeats = widgets.IntSlider(
            value=20, min=5, max=200, description="repeats", continuous_update=False
        )
        self.run_button = widgets.Button(
            description="Run", button_style="primary", tooltip="Measure the chosen grid"
        )
        self.cancel_button = widgets.Button(
            description="Cancel", disabled=True, tooltip="Stop; what is finished stays"
        )
        self.progress = widgets.IntProgress(description="cells", bar_style="info")
        self.status = widgets.HTML("Nothing has run yet.")
        self.picture = widgets.Image(format="png", layout={"max_width": "560px"})
        self.picture.layout.display = "none"
        self.run_button.on_click(lambda _: self.run_now())
        self.cancel_button.on_click(lambda _: self.cancel())

    def run_now(self) -> None:
        """Start the sweep in the background; nothing happens while one runs."""
        if self._thread.is_alive():
            return
        self._cancel.clear()
        self._busy(True)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def cancel(self) -> None:
        """Stop at the next call."""
        self._cancel.set()
        self.status.value = "Stopping …"

    def wait(self, timeout_s: float = 60.0) -> None:
        """Until the sweep has ended."""
        self._thread.join(timeout_s)

    def _work(self) -> None:
        try:
            sweep = Sweep(
                self._model,
                batch_size=self.batch_size.value,
                top_k=self.top_k.value,
                stream_count=self.streams.value,
                capacity=self.capacity.value,
                repeats=self.repeats.value,
                out=self._out,
                **self._changes,
            )
            self.result = sweep.run(progress=self._tell, cancel=self._cancel)
            self._draw()
        except Exception as error:  # whatever it is, the reader must see it
            self.status.value = f'<pre style="color:#a33300">{escape(str(error))}</pre>'
        finally:
            self._busy(False)

    def _tell(self, event: Progress) -> None:
        self.progress.max, self.progress.value = max(event.total, 1), event.done
        left = "" if event.remaining_s is None else f", about {event.remaining_s:.0f} s left"
        failed = f", {event.failed} failed" if event.failed else ""
        words = {"done": "Done", "cancelled": "Stopped"}.get(event.stage, escape(event.label))
        self.status.value = (
            f"{event.done} of {event.total} cells ({event.reused} reused){left}{failed}: {words}"
        )
        if event.stage == "finished" and time.monotonic() - self._drawn_s > REDRAW_S:
            self._draw()

    def _draw(self) -> None:
        self._drawn_s = time.monotonic()
        frame = timed(measured(Run.open(self._out)))
        if frame.empty:
            return
        with themed(LIGHT):
            buffer = io.BytesIO()
            latency_picture(frame).savefig(buffer, format="png", dpi=120)
        self.picture.value = buffer.getvalue()
        self.picture.layout.display = ""

    def _busy(self, busy: bool) -> None:
        self.run_button.disabled = busy
        self.cancel_button.disabled = not busy


def latency_picture(frame: pd.DataFrame) -> Figure:
    """Median latency against batch size, one line for each top-k; of several cells, the fastest.

    Raises InputError where a cell is emulated.
    """
    refuse_emulated(frame)
    points = frame.groupby(["batch_size", "top_k"], as_index=False)["latency_p50_ms"]
    many = len(frame) > len(shown := points.min())
    figure, axes = new_figure(4.6, 3.2)
    plots.lines(
        shown, "batch_size", "latency_p50_ms", "top_k", LIGHT, axes=axes,
        ylabel=f"{'lowest ' if many else ''}median latency, ms",
        title="The fastest of a point's cells" if many else "",
    )  # fmt: skip
    return figure


def _choices(name: str, options: Any, value: Any) -> widgets.SelectMultiple:
    return widgets.SelectMultiple(
        options=list(options), value=list(value), description=name, rows=5,
        layout={"width": "190px"},
    )  # fmt: skip
