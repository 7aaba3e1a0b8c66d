// Whether a record can be a recorder's. A file may have been changed, and the engine trusts its control: all that a
// replay hands to it is looked at here first. The replayer looks at what changes with the engine's state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "record/format.h"
#include "record/structures.h"

namespace uroce::record {

/// No recorder has written this.
[[noreturn]] void refuse(const Record& record, const std::string& why);

/// Most memory that a replay gives to the rings of queue pairs.
inline constexpr std::size_t kMostRingBytes = std::size_t{1} << 32;
/// More frames than any engine gets at once.
inline constexpr uint32_t kMostFrames = 4096;

// Each throws Stop where a value is out of its range.
void check(const Record& record, const Nanos& now);
void check(const Record& record, const EngineRecord& engine);
void check(const Record& record, const LocalFrameRecord& frame);
void check(const Record& record, const DoorbellRecord& doorbell);
void check(const Record& record, const RegionRecord& region);
void check(const Record& record, const CheckRecord& check);
void check(const Record& record, const HandleRecord& handle);
void check(const Record& record, const QpRecord& qp);
void check(const Record& record, const SrqRecord& srq);
void check(const Record& record, const ModifyRecord& modify);
void check(const Record& record, const ObjectRecord& object);
void check(const Record& record, const RingOwnerRecord& ring);
void check(const Record& record, const RedirectRecord& redirect);
void check(const Record& record, const FlowRecord& flow);
void check(const Record& record, const Prefix& prefix);

// The bools in a structure. In a file they may be any byte, and then must not be read as bools.
using At = const void*;
inline std::array<At, 2> bools_of(const EngineRecord& r) { return {&r.plain_path, &r.check_icrc}; }
inline std::array<At, 2> bools_of(const CheckRecord& r) { return {&r.null, &r.misaligned}; }
inline std::array<At, 3> bools_of(const HandleRecord& r) { return {&r.found, &r.loopback, &r.multicast}; }
inline std::array<At, 8> bools_of(const QpRecord& r) {
  return {&r.signal_all, &r.has_sq, &r.has_rq, &r.has_send_cq, &r.has_recv_cq, &r.has_srq, &r.has_held, &r.held};
}
inline std::array<At, 1> bools_of(const SrqRecord& r) { return {&r.has_cq}; }
inline std::array<At, 4> bools_of(const ModifyRecord& r) {
  // An optional's bool stands behind its value.
  static_assert(sizeof(r.route.vlan) == 2 * sizeof(uint16_t));
  return {&r.attr.en_sqd_async_notify, &r.has_route, &r.loopback,
          reinterpret_cast<const std::byte*>(&r.route.vlan) + sizeof(uint16_t)};
}

/// The next structure of a record. Throws Stop where no recorder writes it.
template <class T>
T read(const Record& record, Parts& parts) {
  alignas(T) std::byte room[sizeof(T)];
  std::memcpy(room, parts.bytes(sizeof(T)).data(), sizeof(T));
  const T& value = *reinterpret_cast<const T*>(room);
  if constexpr (requires { bools_of(value); }) {
    for (const At at : bools_of(value)) {
      uint8_t byte = 0;
      std::memcpy(&byte, at, 1);
      if (byte > 1) refuse(record, "a bool in it is neither 0 nor 1");
    }
  }
  if constexpr (requires { check(record, value); }) check(record, value);
  return value;
}
/// The first structure of a record.
template <class T>
T read(const Record& record) {
  Parts parts(record);
  return read<T>(record, parts);
}

}  // namespace uroce::record
