"""Tables and plots of the simulations, the same for the same results."""

import re


def row_of(*cells):
    return "|" + "|".join(map(str, cells)) + "|"


def head_of(*cells):
    return [row_of(*cells), "|-" * len(cells) + "|"]


class Goal:
    """A goal, and the value measured for it."""

    def __init__(self, what, asked, measured, met):
        self.what, self.asked, self.measured, self.met = what, asked, measured, met

    def line(self):
        return row_of(self.what, self.asked, self.measured, "yes" if self.met else "**no**")


def replace_between(document, text, name, lines):
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(text):
        raise RuntimeError(f"{document} has no place for {name}: put {begin} and {end} where its lines belong")
    return pattern.sub(lambda _: "\n".join([begin, *lines, end]), text)


def write_plot(draw, title, path):
    """`draw` makes the figure with the module that it gets."""
    import matplotlib
    matplotlib.use("svg")
    import matplotlib.pyplot as plt
    plt.rcParams.update({"svg.hashsalt": "uroce", "svg.fonttype": "none", "axes.grid": True, "grid.alpha": 0.3})
    figure = draw(plt)
    figure.suptitle(title, fontsize=11)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    plt.close(figure)
