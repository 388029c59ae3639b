"""What a person meets in a browser: the sweep panel in JupyterLab, the report with no network."""

import os
import re
from pathlib import Path

import pytest

from colibri_lab.viz.report import write_report
from tests.browser.conftest import write_notebook
from tests.support import write_checkpoint
from tests.viz.runs import make_run

pytestmark = pytest.mark.browser


def keep(page, name):
    """A picture for whoever wants to look: COLIBRI_SHOTS names the folder."""
    folder = os.environ.get("COLIBRI_SHOTS")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png")


def test_sweep_panel(browser, lab, tmp_path):
    from playwright.sync_api import expect

    address, folder = lab
    write_checkpoint(tmp_path / "model")
    write_notebook(
        folder / "panel.ipynb",
        "from colibri_lab.viz.widgets import SweepPanel\n"
        f"panel = SweepPanel({str(tmp_path / 'model')!r}, out={str(tmp_path / 'run')!r}, "
        'inputs="random")\npanel',
    )
    page = browser.new_context(viewport={"width": 1280, "height": 1300}).new_page()
    page.goto(f"{address}/lab/tree/panel.ipynb?reset")
    status = page.locator("#jp-main-statusbar")
    expect(status).to_contain_text(re.compile(r"\| Idle"))
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    run, cancel = (page.get_by_role("button", name=name, exact=True) for name in ("Run", "Cancel"))
    expect(cancel).to_be_disabled()
    expect(status).to_contain_text(re.compile(r"\| Idle"))
    run.focus()
    page.keyboard.press("Enter")
    output = page.locator(".jp-OutputArea-output")
    expect(output).to_contain_text("6 of 6 cells")
    expect(run).to_be_enabled()
    picture = page.locator(".jp-OutputArea-output img")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.naturalWidth") > 300
    keep(page, "panel")
    page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_report_opens_without_a_network(browser, tmp_path, scheme):
    run = make_run(tmp_path)
    report = write_report(run, tmp_path / "report.html")
    context = browser.new_context(color_scheme=scheme, viewport={"width": 390, "height": 900})
    page, asked, faults = context.new_page(), [], []
    context.set_offline(True)
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: faults.append(message.text))
    page.goto(report.as_uri())
    page.wait_for_load_state("load")
    assert [url for url in asked if not url.startswith("data:")] == [report.as_uri()]
    assert not faults
    widths = page.eval_on_selector_all("figure img", "images => images.map(i => i.naturalWidth)")
    assert len(widths) == 8
    assert min(widths) > 200
    shown = page.eval_on_selector_all("figure img", "images => images.map(i => i.currentSrc)")
    wanted = page.eval_on_selector_all("figure source", "sources => sources.map(s => s.srcset)")
    assert (shown == wanted) == (scheme == "dark")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")  # a narrow phone
    keep(page, f"report-{scheme}")
    context.close()
