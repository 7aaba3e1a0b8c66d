// The three forms of a kernel, for a CPU with carry-less multiplication of vectors.
//
// Each kernel compiles this with flags of its own. So that the linker never takes one kernel's code for another's, all
// functions here are templates of a type that is private to the kernel's file, and call no inline function of others.
//
// A type `V` of vectors has:
//   Reg           a vector of kBytes bytes, a multiple of 16
//   kAccumulators how many vectors are folded side by side, which hides the latency of a multiplication
//   load, store   any address
//   load_last, store_last(…, n)   the last n bytes of a vector, n a multiple of 4; loading makes the others 0
//   value_at_last(x, n)           0 but for the 32-bit value x where those n bytes begin
//   add           a XOR b
//   select        (v AND keep) XOR flip
//   multiply      both halves of each lane by those of `k`, and the two products added
//   fold          multiply(a, k), and `next` added
//   broadcast     two halves to each lane
//   once          the same vector, which the compiler must not load a second time
//   reduce        the lanes added, and the remainder of that: the register
// and may have
//   Few           with faster ways for a few bytes: Short in x86.h
#pragma once

#include "wire/crc/kernel.h"
#include "wire/crc/polynomial.h"

namespace uroce::wire::crc {

/// Where vectors come from: memory.
template <class V>
struct Reader {
  using Reg = typename V::Reg;
  const std::byte* from;
  uint32_t crc;

  Reg first(std::size_t n) {
    const Reg v = V::load_last(from, n);
    from += n;
    return V::add(v, V::value_at_last(crc, n));
  }
  Reg next() {
    const Reg v = V::load(from);
    from += V::kBytes;
    return v;
  }
  Reg next_of_head(std::size_t) { return next(); }
};

/// From memory, and each also goes to a copy.
template <class V>
struct Copier {
  using Reg = typename V::Reg;
  const std::byte* from;
  std::byte* to;
  uint32_t crc;

  Reg first(std::size_t n) {
    const Reg v = V::once(V::load_last(from, n));
    V::store_last(to, v, n);
    from += n;
    to += n;
    return V::add(v, V::value_at_last(crc, n));
  }
  Reg next() {
    const Reg v = V::once(V::load(from));
    V::store(to, v);
    from += V::kBytes;
    to += V::kBytes;
    return v;
  }
  Reg next_of_head(std::size_t) { return next(); }
};

/// From memory, the first 64 bytes masked.
template <class V>
struct Masker {
  using Reg = typename V::Reg;
  const std::byte* from;
  const uint8_t* keep;
  const uint8_t* flip;

  Reg masked(Reg v) {
    v = V::select(v, V::load(reinterpret_cast<const std::byte*>(keep)),
                  V::load(reinterpret_cast<const std::byte*>(flip)));
    keep += V::kBytes;
    flip += V::kBytes;
    return v;
  }
  Reg first(std::size_t n) {
    const Reg v = V::load_last(from, n);
    from += n;
    keep -= V::kBytes - n;
    flip -= V::kBytes - n;
    return masked(v);
  }
  Reg next() {
    const Reg v = V::load(from);
    from += V::kBytes;
    return v;
  }
  /// `index`: of the vector in the message.
  Reg next_of_head(std::size_t index) {
    constexpr std::size_t kHead = 64 / V::kBytes + 1;
    static_assert(kHead <= V::kAccumulators);
    return index < kHead ? masked(next()) : next();
  }
};

/// The multipliers for a vector that `behind` vectors follow.
template <class V>
typename V::Reg to_the_end(std::size_t behind) {
  constexpr std::size_t kVectors = 2 * V::kAccumulators - 1, kLanes = V::kBytes / 16;
  const auto& table = kToTheEnd<kVectors * kLanes>.halves;
  return V::load(reinterpret_cast<const std::byte*>(table[(kVectors - 1 - behind) * kLanes]));
}

/// Lines so far ahead are requested while the multiplications take their time: memory that no cache holds is read in
/// two thirds of the time, other memory as fast as before. Behind a packet of a message there is often the next.
constexpr std::size_t kAheadBytes = 1024;
constexpr std::size_t kLineBytes = 64;

/// The register after `n` bytes of a source, a multiple of four and not 0. Only the first vector may be short.
template <class V, class Source>
[[gnu::always_inline]] inline uint32_t run(Source source, std::size_t n) {
  using Reg = typename V::Reg;
  constexpr std::size_t kAccumulators = V::kAccumulators;
  std::size_t behind = (n - 1) / V::kBytes;  // vectors after the first
  const Reg first = source.first(n - behind * V::kBytes);
  if (behind < kAccumulators - 1) {
    Reg sum = V::multiply(first, to_the_end<V>(behind));
    for (std::size_t i = 1; behind-- != 0; ++i) sum = V::fold(source.next_of_head(i), to_the_end<V>(behind), sum);
    return V::reduce(sum);
  }
  Reg accumulator[kAccumulators] = {first};
#pragma GCC unroll 8
  for (std::size_t i = 1; i < kAccumulators; ++i) accumulator[i] = source.next_of_head(i);
  behind -= kAccumulators - 1;
  const Reg forward = V::broadcast(kForward<8 * V::kBytes * kAccumulators>);
  for (; behind >= kAccumulators; behind -= kAccumulators) {
    for (std::size_t i = 0; i < V::kBytes * kAccumulators; i += kLineBytes) {
      __builtin_prefetch(source.from + kAheadBytes + i);
    }
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kAccumulators; ++i) accumulator[i] = V::fold(accumulator[i], forward, source.next());
  }
  Reg sum = V::multiply(accumulator[0], to_the_end<V>(behind + kAccumulators - 1));
#pragma GCC unroll 8
  for (std::size_t i = 1; i < kAccumulators; ++i)
    sum = V::fold(accumulator[i], to_the_end<V>(behind + kAccumulators - 1 - i), sum);
  while (behind-- != 0) sum = V::fold(source.next(), to_the_end<V>(behind), sum);
  return V::reduce(sum);
}

/// A message without its last bytes, which are not a multiple of four.
constexpr std::size_t kWords = ~std::size_t{3};

template <class V>
uint32_t update(uint32_t crc, const std::byte* bytes, std::size_t n) {
  const std::size_t words = n & kWords;
  if constexpr (requires { typename V::Few; }) {
    if (n <= V::Few::kMost && n == words && n != 0) return V::Few::update_short(crc, bytes, n);
  }
  if (words != 0) crc = run<V>(Reader<V>{bytes, crc}, words);
  return words == n ? crc : update_bytes(crc, bytes + words, n - words);
}

template <class V>
uint32_t copy(uint32_t crc, std::byte* to, const std::byte* from, std::size_t n) {
  const std::size_t words = n & kWords;
  if constexpr (requires { typename V::Few; }) {
    if (n == 8 || n == 4) return V::Few::copy_short(crc, to, from, n);
  }
  if (words != 0) crc = run<V>(Copier<V>{from, to, crc}, words);
  return words == n ? crc : copy_bytes(crc, to + words, from + words, n - words);
}

template <class V>
uint32_t masked(const HeadMask& mask, const std::byte* bytes, std::size_t n) {
  const std::size_t words = n & kWords;
  const uint32_t crc = run<V>(Masker<V>{bytes, mask.keep + HeadMask::kBefore, mask.flip + HeadMask::kBefore}, words);
  return words == n ? crc : update_bytes(crc, bytes + words, n - words);
}

template <class V>
constexpr Kernel kernel_of(const char* name) {
  return {name, update<V>, copy<V>, masked<V>};
}

}  // namespace uroce::wire::crc
