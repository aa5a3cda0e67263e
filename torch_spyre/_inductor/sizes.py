"""SymPy's sizes as the graph's size expressions."""

import functools
from collections.abc import Callable

import sympy
from torch.utils._sympy.functions import CleanDiv, FloorDiv, Identity, Max, Min, Mod, ModularIndexing, PythonMod


class NoSize(NotImplementedError):
    """An expression that the graph's sizes can't say."""


def size_text(expr: sympy.Expr, name: Callable[[sympy.Symbol], str]) -> str:
    """`expr` in the form that GraphSize parses.

    Parameters
    ----------
    expr : sympy.Expr
        An integer expression.
    name : callable
        The name of a symbol ("s0"), called once per occurrence.
    """
    go = functools.partial(size_text, name=name)
    if isinstance(expr, (sympy.Integer, int)):
        return str(int(expr)) if expr >= 0 else f"(0 - {-int(expr)})"
    if isinstance(expr, sympy.Symbol):
        return name(expr)
    if isinstance(expr, sympy.Add):
        return "(" + " + ".join(map(go, expr.args)) + ")"
    if isinstance(expr, sympy.Mul) and not any(isinstance(a, sympy.Rational) and a.q != 1 for a in expr.args):
        return "(" + " * ".join(map(go, expr.args)) + ")"
    if isinstance(expr, sympy.Pow) and expr.exp.is_Integer and 1 <= expr.exp <= 16:
        return "(" + " * ".join([go(expr.base)] * int(expr.exp)) + ")"
    if isinstance(expr, (FloorDiv, CleanDiv)):
        return f"floor_div({go(expr.args[0])}, {go(expr.args[1])})"
    if isinstance(expr, (Mod, PythonMod)):
        return f"mod({go(expr.args[0])}, {go(expr.args[1])})"
    if isinstance(expr, ModularIndexing):
        base, divisor, modulus = map(go, expr.args)
        return f"mod(floor_div({base}, {divisor}), {modulus})"
    if isinstance(expr, Identity):
        return go(expr.args[0])
    for kind, word in ((Max, "max"), (Min, "min"), (sympy.Max, "max"), (sympy.Min, "min")):
        if isinstance(expr, kind):
            text = go(expr.args[0])
            for arg in expr.args[1:]:
                text = f"{word}({text}, {go(arg)})"
            return text
    raise NoSize(f"the size {expr}")
