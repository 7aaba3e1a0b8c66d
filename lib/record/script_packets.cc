#include "record/script_packets.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "wire/text.h"

namespace uroce::record {
namespace {

bool is_one_of(std::string_view key, std::initializer_list<std::string_view> keys) {
  return std::ranges::find(keys, key) != keys.end();
}

}  // namespace

// As the script's runner does.
void ScriptPackets::learn(const wire::Packet& packet, uint32_t& epoch) {
  if (packet.bth.opcode != wire::Opcode::hello) return;
  const auto hello = wire::Hello::load(packet.payload);
  if (!hello) return;
  if (&epoch == &peer_epoch_ && epoch != 0 && hello->peer_epoch != our_epoch_) return;
  epoch = hello->epoch;
}

std::string ScriptPackets::words_of(const wire::Packet& packet, bool received) {
  const wire::OpFlags flags = packet.op().flags;
  const bool to_memory = received && (flags.has(wire::Op::reth) || flags.has(wire::Op::atomic_eth));
  const bool adds = flags.has(wire::Op::atomic_eth);
  const memory::Key key = adds ? packet.atomic.rkey : packet.reth.rkey;
  const auto place = to_memory ? places_.place(key, adds ? packet.atomic.va : packet.reth.va) : std::nullopt;
  std::string text;
  std::istringstream words(wire::to_text(packet));
  for (std::string word; words >> word;) {
    const std::string name = word.substr(0, word.find('='));
    const std::string value = word.size() > name.size() ? word.substr(name.size() + 1) : "";
    // The seal follows from the epochs; a script's queue pairs have other numbers.
    if (is_one_of(name, {"qp", "rsv6", "rsv7"})) continue;
    // They depend on the port, and on memory.
    if (!received && is_one_of(name, {"port", "orig"})) continue;
    if (place && name == "va") word = fmt::format("va={}", *place);
    if (place && name == "rkey") word = fmt::format("rkey={}", *places_.key(key));
    if (to_memory && name == "rkey" && places_.is_wrong(key)) word = "rkey=0xbad";
    if (received && name == "inv_rkey") {
      if (const auto known = places_.key(packet.imm)) word = fmt::format("inv_rkey={}", *known);
      if (places_.is_wrong(packet.imm)) word = "inv_rkey=0xbad";
    }
    if (is_one_of(name, {"epoch", "peer_epoch"}) && our_epoch_ != 0 && value == fmt::format("{:#x}", our_epoch_)) {
      word = name + "=ours";
    }
    text += text.empty() ? word : ' ' + word;
  }
  return text;
}

std::string ScriptPackets::received(const wire::Packet& packet, bool bad_icrc) {
  std::string text = words_of(packet, true);
  learn(packet, peer_epoch_);
  if (our_epoch_ != 0 && peer_epoch_ != 0) {
    const wire::Seal seal = wire::Seal::of(packet.bth);
    if (seal == wire::Seal{}) {
      text += " seal=none";
    } else if (seal != wire::Seal::of(peer_epoch_, our_epoch_)) {
      text += " seal=wrong";
    }
    if (const uint8_t copy = wire::copy_of(packet.bth); copy != 0) text += fmt::format(" copy={}", copy);
  }
  const std::byte* const ip = packet.frame + packet.l3_offset;
  const uint32_t traffic_class = packet.ip_version == 4 ? load8(ip + 1) : load_be32(ip) >> 20 & 0xff;
  if (traffic_class != 0) text += fmt::format(" ecn={:#x}", traffic_class);
  if (route_ && packet.source() != route_->dgid && packet.source().is_ipv4()) {
    const auto& b = packet.source().bytes;
    text += fmt::format(" from={}.{}.{}.{}", b[12], b[13], b[14], b[15]);
  }
  if (bad_icrc) text += " bad_icrc";
  return text;
}

std::string ScriptPackets::sent(const wire::Packet& packet) {
  learn(packet, our_epoch_);
  return words_of(packet, false);
}

}  // namespace uroce::record
