// The limit of this machine without any protocol: frames like those of a WRITE's middle packets between two processes,
// with the copies and the ICRCs that every RoCE stack in software needs, and nothing else. The sender copies payload
// from its memory and computes the ICRC; the receiver parses, checks the ICRC and copies to its memory. No queue pair,
// no state, no ACK.
//
// Usage: as uroce_perf raw_bw, with `limit` in place of uroce_perf. A frame has 58 bytes and a multiple of four.
#include <array>
#include <cstring>
#include <memory>
#include <span>

#include <uroce/types.h>

#include "base/bytes.h"
#include "base/psn.h"
#include "perf/program.h"
#include "pmd_glue/raw_options.h"
#include "tests/support/encode.h"
#include "wire/icrc.h"
#include "wire/packet.h"

namespace {

using namespace uroce;

/// A message of tests/bench/run's WRITEs: both sides use its bytes again and again.
constexpr std::size_t kMemory = 65536;

/// Where the next payload of so many bytes lies in the memory.
class Cursor {
 public:
  std::byte* take(std::size_t bytes) {
    if (at_ + bytes > kMemory) at_ = 0;
    at_ += bytes;
    return memory_.get() + at_ - bytes;
  }

 private:
  std::unique_ptr<std::byte[]> memory_ = std::make_unique<std::byte[]>(kMemory);
  std::size_t at_ = 0;
};

class WriteFrames final : public glue::RawFrames {
 public:
  WriteFrames() {
    wire::Route route;
    route.src_mac = {{2, 0, 0, 0, 0, 1}};
    route.dst_mac = {{2, 0, 0, 0, 0, 2}};
    route.sgid = Gid::from_ipv4(0x0a750001);
    route.dgid = Gid::from_ipv4(0x0a750002);
    template_ = wire::make_template(route);
    packet_.bth.opcode = wire::Opcode::rc_write_middle;
    packet_.bth.dest_qpn = 0x11;
  }

  void fill(std::span<const std::span<std::byte>> frames) override {
    for (const std::span<std::byte> frame : frames) fill_one(frame);
  }

  uint64_t take(std::span<const std::span<const std::byte>> frames) override {
    uint64_t good = 0;
    for (const std::span<const std::byte> frame : frames) {
      const auto packet = wire::parse(frame);
      if (!packet) continue;
      std::memcpy(target_.take(packet->payload.size()), packet->payload.data(), packet->payload.size());
      ++good;
    }
    return good;
  }

 private:
  void fill_one(std::span<std::byte> frame) {
    const std::size_t l4 = template_.length;
    ++packet_.bth.psn;
    wire::write_l2_to_l4(frame.data(), template_, 0xc000, frame.size() - l4,
                         static_cast<uint16_t>(packet_.bth.psn.value()));
    std::byte* const payload = frame.data() + l4 + test::store_headers(frame.data() + l4, packet_);
    const std::size_t headers = static_cast<std::size_t>(payload - frame.data());
    const std::size_t bytes = frame.size() - headers - wire::kIcrcBytes;
    auto icrc = wire::IcrcState::begin({frame.data() + template_.l3_offset, headers - template_.l3_offset},
                                       template_.ip_version);
    icrc.copy(payload, {source_.take(bytes), bytes});
    icrc.finish(payload + bytes, 0);
  }

  wire::RouteTemplate template_;
  wire::Packet packet_;
  Cursor source_;  // of the core that sends
  Cursor target_;  // of the core that receives
};

}  // namespace

int main(int argc, char** argv) {
  WriteFrames frames;
  return perf::run_program(argc, argv, &frames);
}
