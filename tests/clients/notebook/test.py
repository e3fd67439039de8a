"""The cells of docs/notebooks.md, in order, in a kernel of Jupyter."""

import re
import sys

import nbclient
import nbformat

from checks import HOST, VEILED, check, run

text = open("docs/notebooks.md").read()
cells = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
moved = [
    cell.replace("host=127.0.0.1 port=6432", f"host={HOST} port={VEILED}").replace(
        "127.0.0.1:6432", f"{HOST}:{VEILED}"
    )
    for cell in cells
]
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in moved])
kernel = {"name": "python3", "display_name": "Python", "language": "python"}
book.metadata["kernelspec"] = kernel


def shown(words):
    """What stands under the cell with these words: printed text, results, and types of pictures."""
    [cell] = [cell for cell in book.cells if words in cell.source]
    printed = [output.text for output in cell.outputs if output.output_type == "stream"]
    results = [output.data for output in cell.outputs if "data" in output]
    return "".join(printed) + "".join(data.get("text/plain", "") for data in results), [
        kind for data in results for kind in data
    ]


@check
def every_cell_runs():
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    assert len(cells) == 8, len(cells)


@check
def the_price_stands_under_its_cell():
    printed, _ = shown('price("SELECT race')
    assert "Cost" in printed and "budget" in printed, printed


@check
def cost_and_noise_stand_under_the_answer():
    printed, _ = shown('count(*) AS women FROM nls.women GROUP BY race ORDER BY women DESC")')
    assert "NOTICE:  privacy cost" in printed and "95 % within" in printed, printed
    assert "white" in printed, printed


@check
def a_refusal_is_read():
    printed, _ = shown("LIMIT 5\")\nexcept")
    assert (
        "rows of a private table are not shown" in printed and "Use COUNT, SUM or AVG" in printed
    ), printed


@check
def error_bars_are_drawn():
    _, kinds = shown("plt.errorbar")
    assert "image/png" in kinds, kinds


@check
def the_budget_is_read():
    printed, _ = shown("FROM pgveil.budget")
    assert "analyst" in printed, printed
    printed, _ = shown("FROM pgveil.worth")
    assert "error_95" in printed, printed


@check
def sqlalchemy_shows_notices_too():
    printed, _ = shown("create_engine")
    assert "NOTICE:  privacy cost" in printed and "1968" in printed, printed


sys.argv[1:] = []
run()
