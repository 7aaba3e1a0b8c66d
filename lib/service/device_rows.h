// The rows of an estate that belong to a device itself, and to none of its clients. They come before those of programs.
#pragma once

#include "base/secret.h"
#include "service/estate_rows.h"

namespace uroce::service {

/// The addresses of the device's entries, those that the port has lost included.
struct AddressesRow {
  static constexpr Row kRow = Row::addresses;
  static constexpr uint32_t kSince = 2;
  std::string device{};
  std::vector<std::array<uint8_t, 16>> former{};
  static void fields(auto& self, auto& archive) { archive(self.device, self.former); }
};

/// Counters of the device and its port, those of daemons before included.
struct CountersRow {
  static constexpr Row kRow = Row::counters;
  static constexpr uint32_t kSince = 2;
  std::string device{};
  std::vector<std::pair<std::string, uint64_t>> values{};
  static void fields(auto& self, auto& archive) { archive(self.device, self.values); }
};

/// The keys to come.
struct KeysRow {
  static constexpr Row kRow = Row::keys;
  static constexpr uint32_t kSince = 2;
  std::string device{};
  SecretPermutation::Key permutation{};
  std::vector<uint32_t> uses{};
  std::vector<uint32_t> free{};
  uint64_t last_flow = 0;  ///< the number of the latest receive rule
  uint32_t engines = 0;    ///< QpnsRows that follow
  static void fields(auto& self, auto& archive) {
    archive(self.device, self.permutation);
    archive.many(self.uses);
    archive.many(self.free);
    archive(self.last_flow, self.engines);
  }
};

/// The QPNs to come of the next engine.
struct QpnsRow {
  static constexpr Row kRow = Row::qpns;
  static constexpr uint32_t kSince = 2;
  SecretPermutation::Key permutation{};
  uint32_t fresh = 0;
  std::vector<uint32_t> uses{};
  std::vector<uint32_t> free{};
  static void fields(auto& self, auto& archive) {
    archive(self.permutation, self.fresh);
    archive.many(self.uses);
    archive.many(self.free);
  }
};

}  // namespace uroce::service
