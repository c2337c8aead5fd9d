"""Figures for a paper from recorded runs: every figure the runs have, as PDF with caption, numbers and provenance.

python examples/report_figures.py runs/ figures/
"""

import argparse
from pathlib import Path

import depthscope
from depthscope.report import figures_for_paper

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("runs", type=Path, help="a folder with runs in it, as `depthscope demo` makes")
parser.add_argument("figures", type=Path, help="where the figures go")
arguments = parser.parse_args()

runs = depthscope.find_runs(arguments.runs)
print(f"{len(runs)} runs: {', '.join(run.name for run in runs)}")

# Each figure as wide as the page; a run that lacks what a figure shows is left out of it, with the reason.
for name, shows in figures_for_paper().items():
    try:
        written = depthscope.export(name, runs, arguments.figures / f"{name}.pdf", width="text")
    except ValueError as error:
        print(f"\n{name}: {error}")
        continue
    print(f"\n{name}: {shows}\n  {written.figure}")
    for run, reason in written.left_out.items():
        print(f"  without {run}: {reason}")

# One figure by hand: how the newest write's share of the next read changes over depth, early and late.
last = min(run.last_step or 0 for run in runs)
depthscope.export(
    "depth-profile",
    runs[:2],
    arguments.figures / "fresh-share.pdf",
    width="column",
    mode="fresh",
    step=last,
    pins=(last // 10,),
)
