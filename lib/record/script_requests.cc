#include "record/script_requests.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include <fmt/format.h>

#include "record/script_names.h"

namespace uroce::record {
namespace {

std::string key_text(uint32_t key, ScriptPlaces& places) { return places.key(key).value_or(fmt::format("{:#x}", key)); }

/// ` sge=region+0:64,...`; an address alone has a wrong key.
std::string sges_text(std::span<const std::byte> bytes, std::size_t count, ScriptPlaces& places) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(count, bytes.size() / sizeof(Sge)); ++i) {
    Sge sge;
    std::memcpy(&sge, bytes.data() + i * sizeof sge, sizeof sge);
    const std::string place = places.place(sge.lkey, sge.addr).value_or(fmt::format("{:#x}", sge.addr));
    text += fmt::format("{}{}:{}", text.empty() ? " sge=" : ",", place, sge.length);
  }
  return text;
}

void put_remote(std::string& text, const queues::SendWqe& wqe, WrOpcode opcode, ScriptPlaces& places) {
  const auto out = std::back_inserter(text);
  switch (opcode) {
    case WrOpcode::send: return;
    case WrOpcode::send_with_imm: fmt::format_to(out, " imm={:#x}", wqe.imm_or_key); return;
    case WrOpcode::send_with_invalidate: fmt::format_to(out, " inv={:#x}", wqe.imm_or_key); return;
    case WrOpcode::local_invalidate: fmt::format_to(out, " inv={}", key_text(wqe.imm_or_key, places)); return;
    default: break;
  }
  fmt::format_to(out, " va={:#x} rkey={:#x}", wqe.remote_addr, wqe.rkey);
  if (opcode == WrOpcode::rdma_write_with_imm) fmt::format_to(out, " imm={:#x}", wqe.imm_or_key);
  if (opcode == WrOpcode::fetch_add) fmt::format_to(out, " add={:#x}", wqe.atomic.compare_add);
  if (opcode == WrOpcode::compare_swap) {
    fmt::format_to(out, " compare={:#x} swap={:#x}", wqe.atomic.compare_add, wqe.atomic.swap);
  }
  if (opcode == WrOpcode::flush) {
    const auto& flush = wqe.placement_flush;
    fmt::format_to(out, " len={} plt={:#x} sel={}", flush.length, flush.placement, flush.scope);
  }
}

}  // namespace

std::optional<std::string> send_text(std::span<const std::byte> slot, ScriptPlaces& places) {
  queues::SendWqe wqe{};
  if (slot.size() < sizeof wqe) return std::nullopt;
  std::memcpy(&wqe, slot.data(), sizeof wqe);
  const auto opcode = static_cast<WrOpcode>(wqe.opcode);
  const auto known = std::ranges::find(names::kWrOpcodeNames, opcode, &names::Name<WrOpcode>::second);
  const auto flags = SendFlags::from_bits(wqe.flags);
  const SendFlags words = SendFlags(SendFlag::signaled) | SendFlag::solicited | SendFlag::fence | SendFlag::inline_data;
  if (known == names::kWrOpcodeNames.end() || !flags.without(words).empty() || wqe.num_sge > kMaxSge) {
    return std::nullopt;
  }
  std::string text = fmt::format("post {} wr={}", known->first, wqe.wr_id);
  if (!flags.has(SendFlag::signaled)) text += " unsignaled";
  if (flags.has(SendFlag::solicited)) text += " solicited";
  if (flags.has(SendFlag::fence)) text += " fence";
  if (flags.has(SendFlag::inline_data)) {
    text += fmt::format(" inline len={}", wqe.inline_length);
  } else if (opcode != WrOpcode::flush && opcode != WrOpcode::local_invalidate) {
    text += sges_text(slot.subspan(sizeof wqe), wqe.num_sge, places);
  }
  put_remote(text, wqe, opcode, places);
  return text;
}

std::optional<std::string> recv_text(std::span<const std::byte> slot, ScriptPlaces& places) {
  queues::RecvWqe wqe{};
  if (slot.size() < sizeof wqe) return std::nullopt;
  std::memcpy(&wqe, slot.data(), sizeof wqe);
  if (wqe.num_sge > kMaxSge) return std::nullopt;
  const std::string sges = sges_text(slot.subspan(sizeof wqe), wqe.num_sge, places);
  return fmt::format("recv wr={}{}", wqe.wr_id, sges.empty() ? " len=0" : sges);
}

std::string completion_text(const queues::Cqe& cqe, bool receive, ScriptPlaces& places) {
  std::string text =
      fmt::format("{} wr={} status={} op={} len={}", receive ? "rcqe" : "cqe", cqe.wr_id,
                  status_name(static_cast<WcStatus>(cqe.status)),
                  names::name_of(names::kWcOpcodeNames, static_cast<WcOpcode>(cqe.opcode)), cqe.byte_len);
  const auto flags = WcFlags::from_bits(cqe.flags);
  if (flags.has(WcFlag::with_imm)) text += fmt::format(" imm={:#x}", cqe.imm_or_key);
  if (flags.has(WcFlag::with_invalidate)) text += fmt::format(" inv={}", key_text(cqe.imm_or_key, places));
  return text;
}

}  // namespace uroce::record
