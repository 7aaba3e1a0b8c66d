#include "pmd_glue/kif/filter.h"

#include <array>
#include <bit>

#include "wire/ethernet.h"
#include "wire/headers.h"

namespace uroce::glue::kif {

namespace {

/// A label is the index of an instruction; the two ends stand last.
class Assembler {
 public:
  static constexpr uint8_t kNext = 0, kPass = 1, kDrop = 2, kIpv6 = 3;

  void load_half(uint32_t at) { add(BPF_LD | BPF_H | BPF_ABS, at); }
  void load_byte(uint32_t at) { add(BPF_LD | BPF_B | BPF_ABS, at); }
  void mask(uint32_t bits) { add(BPF_ALU | BPF_AND | BPF_K, bits); }
  void if_equal(uint32_t value, uint8_t then, uint8_t otherwise) { jump(BPF_JEQ, value, then, otherwise); }
  void if_any_bit(uint32_t bits, uint8_t then, uint8_t otherwise) { jump(BPF_JSET, bits, then, otherwise); }
  void add(unsigned code, uint32_t k) { program_.push_back({static_cast<uint16_t>(code), 0, 0, k}); }
  void mark_ipv6() { ipv6_ = program_.size(); }

  std::vector<sock_filter> finish() {
    const std::array<std::size_t, 4> targets{0, program_.size(), program_.size() + 1, ipv6_};
    for (const Jump& one : jumps_) {
      const auto distance = [&](uint8_t label) {
        return label == kNext ? uint8_t{0} : static_cast<uint8_t>(targets[label] - one.at - 1);
      };
      program_[one.at].jt = distance(one.then);
      program_[one.at].jf = distance(one.otherwise);
    }
    add(BPF_RET | BPF_K, UINT32_MAX);
    add(BPF_RET | BPF_K, 0);
    return std::move(program_);
  }

 private:
  struct Jump {
    std::size_t at;
    uint8_t then;
    uint8_t otherwise;
  };
  void jump(unsigned kind, uint32_t k, uint8_t then, uint8_t otherwise) {
    jumps_.push_back({program_.size(), then, otherwise});
    add(BPF_JMP | kind | BPF_K, k);
  }

  std::vector<sock_filter> program_;
  std::vector<Jump> jumps_;
  std::size_t ipv6_ = 0;
};

constexpr uint32_t ancillary(int what) { return static_cast<uint32_t>(SKF_AD_OFF + what); }

}  // namespace

std::vector<sock_filter> make_filter(uint16_t vlan) {
  using A = Assembler;
  constexpr uint32_t kIp = wire::kEthernetBytes;
  constexpr uint32_t kFragment = 0x3fff;  // more fragments, and the offset
  A a;
  // A frame without a tag has the tag 0 here.
  a.add(BPF_LD | BPF_W | BPF_ABS, ancillary(SKF_AD_VLAN_TAG));
  a.mask(0xfff);
  a.if_equal(vlan, A::kNext, A::kDrop);
  a.load_half(12);
  a.if_equal(wire::kEthertypeArp, A::kPass, A::kNext);
  a.if_equal(wire::kEthertypeIpv6, A::kIpv6, A::kNext);
  a.if_equal(wire::kEthertypeIpv4, A::kNext, A::kDrop);
  a.load_byte(kIp + 9);
  a.if_equal(wire::kProtocolIcmp, A::kPass, A::kNext);
  a.if_equal(wire::kProtocolIgmp, A::kPass, A::kNext);
  a.if_equal(wire::kProtocolUdp, A::kNext, A::kDrop);
  a.load_half(kIp + 6);
  a.if_any_bit(kFragment, A::kDrop, A::kNext);
  a.add(BPF_LDX | BPF_B | BPF_MSH, kIp);  // the IPv4 header's length
  a.add(BPF_LD | BPF_H | BPF_IND, kIp + 2);
  a.if_equal(wire::kUdpPort, A::kPass, A::kDrop);
  a.mark_ipv6();
  a.load_byte(kIp + 6);
  a.if_equal(wire::kProtocolIcmpv6, A::kPass, A::kNext);
  a.if_equal(wire::kProtocolHopByHop, A::kPass, A::kNext);  // MLD has a router alert (RFC 3810, 5)
  a.if_equal(wire::kProtocolUdp, A::kNext, A::kDrop);
  a.load_half(kIp + wire::kIpv6Bytes + 2);
  a.if_equal(wire::kUdpPort, A::kPass, A::kDrop);
  return a.finish();
}

// The kernel calls it with the frame behind its Ethernet header or before it, so offsets are those of the network
// layer.
std::vector<sock_filter> make_spread(uint32_t engines) {
  constexpr auto kIp = static_cast<uint32_t>(SKF_NET_OFF);
  constexpr uint32_t kLowByteOfQpn = wire::kUdpBytes + 7;
  constexpr auto kLoadByte = static_cast<uint16_t>(BPF_LD | BPF_B | BPF_ABS);
  constexpr auto kIfEqual = static_cast<uint16_t>(BPF_JMP | BPF_JEQ | BPF_K);
  return {
      {BPF_LD | BPF_H | BPF_ABS, 0, 0, ancillary(SKF_AD_PROTOCOL)},
      {kIfEqual, 5, 0, wire::kEthertypeIpv6},
      {kIfEqual, 0, 9, wire::kEthertypeIpv4},
      {kLoadByte, 0, 0, kIp + 9},
      {kIfEqual, 0, 7, wire::kProtocolUdp},
      {kLoadByte, 0, 0, kIp + wire::kIpv4Bytes + kLowByteOfQpn},
      {BPF_JMP | BPF_JA, 0, 0, 3},
      {kLoadByte, 0, 0, kIp + 6},
      {kIfEqual, 0, 3, wire::kProtocolUdp},
      {kLoadByte, 0, 0, kIp + wire::kIpv6Bytes + kLowByteOfQpn},
      {BPF_ALU | BPF_AND | BPF_K, 0, 0, std::bit_ceil(engines) - 1},
      {BPF_RET | BPF_A, 0, 0, 0},
      {BPF_RET | BPF_K, 0, 0, 0},
  };
}

}  // namespace uroce::glue::kif
