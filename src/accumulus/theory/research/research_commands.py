"""The command ``accumulus research``: tools for open questions of the theory.

The command line (`accumulus.cli.application`) imports this module by name when the command is called. It turns errors
and Ctrl-C into messages and exit codes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group

from accumulus.errors import unknown_name
from accumulus.graph.files import READABLE, load_graph
from accumulus.show.tables import amount, counted, duration, print_json, print_out, table, text

if TYPE_CHECKING:
    from accumulus.theory.research.survey import Summary


app = typer.Typer(
    name="research",
    help="Decide an open question of the theory for many graphs.",
    no_args_is_help=True,
    add_completion=False,
)

Output = Annotated[
    Path,
    typer.Option(
        "--output", "-o", dir_okay=False, help="File of results, a line of JSON each; a run continues where it ends."
    ),
]
Jobs = Annotated[int, typer.Option(help="Number of processes.")]
Steps = Annotated[
    int, typer.Option(help="Maximum number of nodes of the search for a graph; beyond it, the graph stays open.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@app.callback()
def _research() -> None:
    """Decide an open question of the theory for many graphs."""


@app.command()
def circular(
    max_edges: Annotated[int, typer.Option(help="Number of edges of the largest graphs.", show_default=False)],
    output: Output = Path("circular.jsonl"),
    jobs: Jobs = 1,
    steps: Steps = 200_000,
    as_json: AsJson = False,
) -> None:
    """Decide for all small graphs whether face elimination attains the least number of products.

    For every graph of up to this number of edges, up to isomorphism and reversal, it finds a program with the fewest
    products, the shortest face elimination, and a verdict. After an interruption, the same command continues.
    """
    from accumulus.theory.research.survey import survey

    with _progress() as update:
        summary = survey(max_edges, output, jobs=jobs, steps=steps, progress=update)
    _finish(summary, as_json)


@app.command("sample")
def sample_command(
    edges: Annotated[int, typer.Option(help="Number of edges of each graph.", show_default=False)],
    graphs: Annotated[int, typer.Option(help="Number of random graphs.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the random graphs. The same seed gives the same graphs.")] = 0,
    output: Output = Path("circular.jsonl"),
    jobs: Jobs = 1,
    steps: Steps = 200_000,
    as_json: AsJson = False,
) -> None:
    """Decide the question of 'circular' for random graphs, which may be larger."""
    from accumulus.theory.research.survey import sample as decide_sample

    with _progress() as update:
        summary = decide_sample(edges, graphs, output, seed=seed, jobs=jobs, steps=steps, progress=update)
    _finish(summary, as_json)


@app.command("decide")
def decide_command(
    graph: Annotated[
        Path, typer.Argument(metavar="GRAPH", help="File of a graph, such as graph.json.", show_default=False)
    ],
    steps: Steps = 1_000_000,
    as_json: AsJson = False,
) -> None:
    """Decide the question of 'circular' for one graph. All of its labels count as variables."""
    from accumulus.theory.research.survey import decide as decide_graph

    if graph.suffix.lower() not in READABLE:
        raise typer.BadParameter(
            f"{str(graph)!r} is no graph file; expected a name that ends in {' or '.join(READABLE)}"
        )
    if not graph.is_file():
        raise typer.BadParameter(f"there is no file {str(graph)!r}")
    loaded = load_graph(graph)
    verdict = decide_graph(loaded, steps)
    if as_json:
        print_json({"name": loaded.name, **asdict(verdict)})
        return
    lines = [
        f"{loaded.name}: {verdict.verdict}",
        f"products of any program  {_bounds(verdict.minimum)}",
        f"face eliminations        {_bounds(verdict.faces)}",
        "",
        *verdict.program.split("; "),
    ]
    print_out(text("\n".join(lines)))


@app.command("corpus")
def corpus_command(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Graphs; by default all.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", dir_okay=False, help="Improve this table; made if it is missing.")
    ] = None,
    add: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GRAPH", help="Add a graph file, or a call such as 'layered(layers=9)'.", show_default=False
        ),
    ] = None,
    source: Annotated[str, typer.Option(help="Where added graphs come from.")] = "generated",
    method: Annotated[str, typer.Option(help="How to search.")] = "exact-vertex",
    objective: Annotated[str | None, typer.Option(help="fma or multiplications; by default both.")] = None,
    time_limit: Annotated[float, typer.Option(metavar="SECONDS", help="For each graph and objective.")] = 10.0,
    effort: Annotated[str, typer.Option(help="When a search that no longer improves stops.")] = "balanced",
    seed: Annotated[int, typer.Option(help="Of the search.")] = 0,
    proven: Annotated[bool, typer.Option(help="Search also where the optimum is proven.")] = False,
) -> None:
    """Show the table of best known costs and lower bounds; with --output, search for better ones.

    Only results that are better are kept, each with the command that repeats it. The table is written after each graph.
    """
    from accumulus.theory.research import corpus as table

    graphs = table.corpus(output if output is not None and output.exists() else None)
    for each in add or ():
        entry = table.new_graph(load_graph(each) if Path(each).is_file() else table.generated(each), source)
        if entry.name in graphs:
            raise typer.BadParameter(f"the corpus has a graph {entry.name!r} already; give the new one another name")
        graphs[entry.name] = entry
    for name in (names := names or list(graphs)):
        if name not in graphs:
            raise unknown_name("graph of the corpus", name, graphs)
    if objective not in (None, *table.OBJECTIVES):
        raise typer.BadParameter(f"{objective!r} has no lower bounds; expected {' or '.join(table.OBJECTIVES)}")
    for name in names:
        entry = graphs[name]
        if output is not None:
            for each in table.objectives(entry.graph):
                if each == (objective or each) and (proven or not entry.proven(each, method)):
                    for better in entry.improve(method, each, time_limit, seed, effort):
                        print_out(text(f"{name}, {each}: {better}"))
            table.save_corpus(graphs, output)
        print_out(text(str(entry)))


def _bounds(bounds: tuple[int, int]) -> str:
    return str(bounds[0]) if bounds[0] == bounds[1] else f"{bounds[0]} to {bounds[1]}"


def _finish(summary: Summary, as_json: bool) -> None:
    if as_json:
        print_json(summary.to_dict())
    else:
        print_out(_report(summary))
    if not summary.complete:
        raise KeyboardInterrupt


def _report(summary: Summary) -> Group:
    rows: list[dict[str, Any]] = summary.to_dict()["by_edges"]
    heads = ("edges", "graphs", "acyclic", "circular", "open")
    parts: list[Any] = [table(heads, ([amount(row[head]) for head in heads] for row in rows)), ""]
    for heading, keys in (("circular", summary.circular), ("open", summary.open)):
        parts += [text(f"{heading}: {key}") for key in keys]
    claim = "every graph has" if not summary.circular and not summary.open else "but for these, every graph has"
    until = "" if summary.complete else "not complete; "
    parts.append(
        text(
            f"{until}{claim} a least program that face elimination follows. "
            f"{counted(summary.decided, 'graph')} decided in {duration(summary.seconds)}, results in {summary.output}"
        )
    )
    return Group(*parts)


@contextmanager
def _progress() -> Iterator[Callable[[int, int, int, int], None]]:
    """Show progress if standard error is a terminal; yield the function that reports it."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    status = TextColumn("{task.fields[found]}")
    with Progress(*columns, status, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("graphs", total=None, found="")

        def update(edges: int, done: int, total: int, circular: int) -> None:
            note = f"{amount(circular)} circular" if circular else ""
            progress.update(task, description=f"{edges} edges", completed=done, total=total, found=note)

        yield update
