#include "wire/recovery_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "wire/recovery.h"

namespace uroce::wire {
namespace {

bool has_bit(const Sack& sack, uint32_t i) { return i < sack.words * 64 && (sack.bitmap[i / 64] >> (i % 64) & 1) != 0; }

// The number of words without the zero words at the end.
uint32_t words_needed(const Sack& sack) {
  uint32_t words = sack.words;
  while (words > 0 && sack.bitmap[words - 1] == 0) --words;
  return words;
}

// "103,105-107": the PSNs that have arrived.
std::string bits_text(const Sack& sack) {
  std::string text;
  for (uint32_t i = 0; i < sack.words * 64; ++i) {
    if (!has_bit(sack, i)) continue;
    const Psn first = sack.base + 1 + i;
    while (has_bit(sack, i + 1)) ++i;
    const Psn last = sack.base + 1 + i;
    text += fmt::format("{}{}", text.empty() ? " bits=" : ",", first.value());
    if (last != first) text += fmt::format("-{}", last.value());
  }
  return text;
}

std::string text_of(const Hello& hello) {
  return fmt::format(" epoch={:#x} peer_epoch={:#x} parking={}{}{}{}", hello.epoch, hello.peer_epoch, hello.parking,
                     hello.port != 0 ? fmt::format(" port={}", hello.port) : "",
                     hello.wish != 0 ? fmt::format(" wish={}", hello.wish) : "", hello.answer ? " answer" : "");
}

std::string text_of(const Sack& sack) {
  std::string text = fmt::format(" epoch={:#x} base={} echo={}", sack.epoch, sack.base.value(), sack.echo.value());
  if (sack.echo_tag != 0) text += fmt::format(" tag={}", sack.echo_tag);
  if (sack.duplicate) text += " dup";
  text += fmt::format(" hold={}", sack.hold);
  text += bits_text(sack);
  if (sack.words != words_needed(sack)) text += fmt::format(" words={}", sack.words);
  return text;
}

template <class Frame>
bool is_canonical(const Frame& frame, std::span<const std::byte> payload) {
  std::array<std::byte, Sack::kMaxBytes> again;
  frame.store(again.data());
  return std::equal(payload.begin(), payload.end(), again.begin());
}

}  // namespace

std::optional<std::string> recovery_text(Opcode opcode, std::span<const std::byte> payload) {
  if (opcode == Opcode::hello) {
    const auto hello = Hello::load(payload);
    if (hello && is_canonical(*hello, payload)) return text_of(*hello);
  }
  Sack sack;
  if (opcode == Opcode::sack && Sack::load(payload, sack) && is_canonical(sack, payload)) return text_of(sack);
  return std::nullopt;
}

}  // namespace uroce::wire
