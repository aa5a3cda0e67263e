// One program that has every statement and every kind of operand; it means nothing. For tests of text and container.
#pragma once

namespace spyre::program {

inline constexpr const char* every_statement = R"(
sym x: in dl16 [1024,4096]
sym xt: in dl16 [4096,1024] strides [1,4096] of [1024,4096]
sym slice: inout f32 [4,10] strides [100,1] offset 205 of [8,100]
sym own: out f32 [64] geo{f32 n=64 d=64 (1,64,32,2)*32 (1,32,1,32)*1}
sym zero: temp i32 []
sym none_: in u32 [0,5]
sym half: in f16 [3,5]
sym bytes: in i8 [130]
sym e4: in e4m3 [16,16]
sym e5: in e5m2 [16,16]
sym words: in i16 [64]
scalar len: i32 in -5..4096
scalar alpha: f32 in -inf..inf
scalar p: f32 in 0..0.5
loc 0 "aten.add" "model.py:1"
loc 1 "quote \" backslash \\ line\n tab\t byte\x01" ""

kernel every(x: in dl16 [1024,4096], xt: in dl16 [4096,1024] strides [1,4096] of [1024,4096],
             y: inout f32 [64,64,64], ids: in i32 [512]; len: i32 in 0..512, alpha: f32 in -1.5..1e30) cores 32 {
  buf whole f32[64,64] x1
  buf other f32[64,64] x1
  grid(a: 4, b: 8) {
    core m in 0..1024 by 256 on a
    core n in 0..4096 by 512 on b
    buf ix i32[64] x2
    buf w dl16[64,64] x2 pieces(0:16)
    ld ix = ids[0..64] fill -1
    ld w = x[m, n.start ..+ 64] fill -inf share(a) @loc(0)
    for i in m by 64 uniform {
      for j in 0..min(len, i.start + 64 - (b + 1)*2, 4096 div 4) by 32 {
        buf t f32[64,64] x3
        buf u i32[64,32] x1
        if i.first and j.last and a == 0 and len - 3 < j.start mod 7 {
          fence
        }
        ld t[0..32, 3] = y[i, 2*j + 1, m.start]
        ld t[_, j] = y[ix in 0..64 trap, j.start..j.start + 3, 5]
        ld t = y[ix[j] in i skip, j, (i.start + j.start) div 64 ..+ max(1, 3) by 2 of j]
        st y[i where ix in 3..40, j, 0..64] = t[i.start - m.start ..+ i.size, 0..len] ordered
        st y[ix in m skip, 0..64, -1] = w
        pt t += w * w^T init(i, j)
        pt t = w^T * w
        sfp.mm t = t * t
        sfp t, u = t > 0 and not (t >= 1 or t != alpha) ? -t : is_nan(t) ? nan : 1e-5 * -2, u +! 1 -! len *! 2 div! 3
        sfp t = fma(t, 2, pow(t, 0.5)) / fmod(t, 3) - (t - (t - t)) + max(t, min(0, abs(t))) * square(t) + f32(iota1)
        sfp t = floor(t) + ceil(t) + round(t) + trunc(t) + expm1(t) + log(t) + log1p(t) + log2(t) + exp2(t) + sqrt(t)
        sfp t = rsqrt(t) + sin(t) + cos(t) + tan(t) + tanh(t) + erf(t) + rcp(t) + sign(t) + exp(-t) - -1
        sfp t = gelu(t) + gelu_tanh(t) + sigmoid(t) + silu(t)
        sfp u = (u and 7 or u xor 3) shl! 2 shr (u mod 5) + (not u) - cast!(t) + i32(t[_, 0..32]) + -!u + abs!(u)
        sfp u = philox(1, len, iota0 * 32 + iota1, 3) + int(i.start * 32 + b) + j.size + i.trip + a + (u == 3 ? -7 : u div 2)
        sfp u = t[_, 0..32] < 3
        sfp.red u[_, 0] = sum!(u[_, 0], u over 1)
        sfp.red t[_, 0..1] = any(t != 0 over 1)
        sfp.red t[0, _], u[0, 0..32] = argmax(t over 0)
        sfp.red t[0, _], u[0, 0..32] = argmin(t[0, _], u[0, 0..32], t * 2 over 0)
        sfp.red t[0, _], t[1, _], t[2, _] = welford(t over 0)
        sfp.red t[0, _], t[1, _] = logsumexp(t[0, _], t[1, _], t over 0)
        sfp.scan t, t[_, 0] = prod(t + 1, t[_, 0])
        sfp.scan u, u[_, 0] = sum!(u, u[_, 0])
        sfp.sort t, u = t descending
        sfp.sort t = t
        sfp.merge t, u = t, u
        sfp.topk t, u = t, u descending
        sfp.gather t = t[ix in 0..64 fill]
        sfp.scatter t[ix in i skip] += w
        sfp.scatter t[ix[j] in 0..len trap] = w
        mv t = w^T @loc(1)
        mv whole = t
        ring.shift t = w over b by -1
        ring.gather t = w over a
        psum t over b to all
        psum t over a to 0 @loc(0)
        barrier over b
        fence @loc("aten.add", "model.py:1")
      }
    }
  }
  grid(c: 32)
    core q in 0..1024 by 32 on c
    ring.remap other = whole from(m@0, _) to(_, q)
    if q.size > 0 { st y[q.start, 0..64, 0..64] = other }
}

kernel nothing() cores 1 { }

kernel small(o: out f32 [64] geo{f32 n=64 d=64 (1,64,32,2)*32 (1,32,1,32)*1}; f: f32 in 0..1) cores 1 {
  grid() {
    buf v f32[64]
    sfp v = f
    st o[0..64] = v
  }
}

call small(own; p) @loc(0)
call nothing()
call small(own; p)
)";

}  // namespace spyre::program
