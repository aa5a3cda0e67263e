"""A bar chart as SVG, without a plotting library: bars on a logarithmic axis, a tick where the limit is."""

import math
from html import escape

_ROW, _LEFT, _WIDTH = 26, 260, 420


def bars(rows: list[tuple[str, float, float | None]], axis: str) -> str:
    """`rows`: name, ratio (> 0), limit or None. Returns the SVG text."""
    values = [v for _, ratio, limit in rows for v in (ratio, limit) if v]
    low, high = math.floor(math.log2(min(values + [0.5]))), math.ceil(math.log2(max(values + [2.0])))
    x = lambda v: _LEFT + _WIDTH * (math.log2(v) - low) / (high - low)  # noqa: E731
    height = _ROW * (len(rows) + 2)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 80}" height="{height}" font-family="sans-serif" font-size="13">',
           '<rect width="100%" height="100%" fill="white"/>']
    for power in range(low, high + 1):
        at = x(2.0**power)
        out.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="8" y2="{height - 2 * _ROW + 8}" stroke="{"#555" if power == 0 else "#ddd"}"/>')
        out.append(f'<text x="{at:.1f}" y="{height - _ROW}" text-anchor="middle" fill="#555">{2.0**power:g}</text>')
    for i, (name, ratio, limit) in enumerate(rows):
        y = 10 + i * _ROW
        missed = limit is not None and ratio < limit
        start, end = sorted((x(1.0), x(ratio)))
        out.append(f'<text x="{_LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(name)}</text>')
        out.append(f'<rect x="{start:.1f}" y="{y}" width="{max(end - start, 1):.1f}" height="18" fill="{"#c0392b" if missed else "#2e86ab"}"/>')
        if limit is not None:
            out.append(f'<line x1="{x(limit):.1f}" x2="{x(limit):.1f}" y1="{y - 3}" y2="{y + 21}" stroke="black" stroke-width="2"/>')
        out.append(f'<text x="{_LEFT + _WIDTH + 8}" y="{y + 14}">{ratio:.2f}</text>')
    out.append(f'<text x="{_LEFT + _WIDTH / 2}" y="{height - 6}" text-anchor="middle" fill="#555">{escape(axis)}; black: limit</text></svg>')
    return "\n".join(out)
