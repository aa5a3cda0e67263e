"""Hand-written tile programs of the benchmarks, as text, for given sizes. All tensors are float16 on the host (dl16)."""


def linear(m: int, k: int, n: int) -> str:
    """y[m, n] = x[m, k] @ w[k, n] on 32 cores.

    Many rows: rows over 4, columns over 8; a core's rows of x stay in LX, w streams past in tiles of all k and 64 columns. One row:
    columns over 32, k in blocks with the accumulator in LX.
    """
    rows, cols = (4, 8) if m >= 8 else (1, 32)
    mt, nt = -(-m // rows), -(-n // cols)
    head = f"""
sym x: in dl16 [{m},{k}]
sym w: in dl16 [{k},{n}]
sym y: out dl16 [{m},{n}]
kernel linear(x: in dl16 [{m},{k}], w: in dl16 [{k},{n}], y: out dl16 [{m},{n}]) cores 32 {{
  grid(mc:{rows}, nc:{cols}) {{
    core m in 0..{m} by {mt} on mc
    core n in 0..{n} by {nt} on nc
"""
    tail = f"""
      buf o dl16[{mt},JT] x2
      sfp o = acc
      st y[m, j] = o
    }}
  }}
}}
call linear(x, w, y)
"""
    if rows > 1:
        return head + f"""    buf a dl16[{mt},{k}] x1
    ld a = x[m, 0..{k}] share(nc)
    for j in n by 64 uniform {{
      buf t dl16[{k},64] x2
      ld t = w[0..{k}, j] share(mc)
      buf acc f32[{mt},64] x2
      pt acc = a * t""" + tail.replace("JT", "64")
    jt, kt = min(nt, 256), min(k, 512)
    return head + f"""    for j in n by {jt} uniform {{
      buf acc f32[{mt},{jt}] x2
      for k in 0..{k} by {kt} {{
        buf a dl16[{mt},{kt}] x2
        ld a = x[m, k] share(nc)
        buf t dl16[{kt},{jt}] x2
        ld t = w[k, j] share(mc)
        pt acc += a * t init(k)
      }}""" + tail.replace("JT", str(jt))


def _rows(body: str, rows: int, cols: int, row_inputs: tuple[str, ...] = ()) -> str:
    """y = f(x) on whole rows: rows over 32 cores, 8 rows a tile. `row_inputs` are vectors [cols] kept in LX as `<name>t`."""
    part, tile = -(-rows // 32), 8
    syms = "".join(f"sym {name}: in dl16 [{cols}]\n" for name in row_inputs)
    formals = "".join(f"{name}: in dl16 [{cols}], " for name in row_inputs)
    loads = "".join(f"    buf {name}t dl16[1,{cols}] x1\n    ld {name}t = {name}[0..{cols}] share(rc)\n" for name in row_inputs)
    return f"""
sym x: in dl16 [{rows},{cols}]
{syms}sym y: out dl16 [{rows},{cols}]
kernel op(x: in dl16 [{rows},{cols}], {formals}y: out dl16 [{rows},{cols}]) cores 32 {{
  grid(rc:32) {{
    core r in 0..{rows} by {part} on rc
{loads}    for t in r by {tile} uniform {{
      buf v dl16[{tile},{cols}] x2
      ld v = x[t, 0..{cols}]
      buf o dl16[{tile},{cols}] x2
{body}
      st y[t, 0..{cols}] = o
    }}
  }}
}}
call op({", ".join(("x", *row_inputs, "y"))})
"""


def gelu(rows: int, cols: int) -> str:
    return _rows("      sfp o = gelu(v)", rows, cols)


def softmax(rows: int, cols: int) -> str:
    body = f"""      buf m f32[8,1] x2
      sfp.red m = max(v[_, 0..{cols}] over 1)
      buf e f32[8,{cols}] x2
      sfp e = exp(v - m)
      buf s f32[8,1] x2
      sfp.red s = sum(e[_, 0..{cols}] over 1)
      sfp o = e / s"""
    return _rows(body, rows, cols)


def layer_norm(rows: int, cols: int, eps: float) -> str:
    body = f"""      buf mean f32[8,1] x2
      buf m2 f32[8,1] x2
      buf count f32[8,1] x2
      sfp.red mean, m2, count = welford(v[_, 0..{cols}] over 1)
      sfp o = (v - mean) * rsqrt(m2 / count + {eps}) * gammat + betat"""
    return _rows(body, rows, cols, ("gamma", "beta"))


def empty() -> str:
    """A program with one kernel that moves one stick: the least a launch can do."""
    return """
sym x: in dl16 [64]
sym y: out dl16 [64]
kernel nothing(x: in dl16 [64], y: out dl16 [64]) cores 1 {
  grid(c:1) {
    buf v dl16[64] x1
    ld v = x[0..64]
    st y[0..64] = v
  }
}
call nothing(x, y)
"""
