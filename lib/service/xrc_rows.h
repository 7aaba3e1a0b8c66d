// The rows of XRC. Programs share domains and target queue pairs, so the targets come behind all programs.
#pragma once

#include "service/estate_rows.h"

namespace uroce::service {

/// A domain; each device of a program that has it, or has a queue in it, has a row.
struct XrcDomainRow {
  static constexpr Row kRow = Row::xrc_domain;
  static constexpr uint32_t kSince = 2;
  uint32_t id = 0;  ///< 0: the program has closed it
  uint32_t number = 0;
  uint32_t engine = 0;
  bool has_file = false;
  uint32_t file = 0;  ///< descriptor
  static void fields(auto& self, auto& archive) {
    archive(self.id, self.number, self.engine, self.has_file, self.file);
  }
};

struct XrcTargetRow {
  static constexpr Row kRow = Row::xrc_target;
  static constexpr uint32_t kSince = 2;
  XrcDomainRow domain{};
  uint32_t qpn = 0;
  Retransmission retransmission{};
  CongestionAlgorithm congestion_control{};
  /// Those that have it: the device (DeviceRow::id), and its number for the queue pair.
  std::vector<std::pair<uint32_t, uint32_t>> holders{};
  std::vector<std::byte> snapshot{};
  static void fields(auto& self, auto& archive) {
    archive(self.domain, self.qpn, self.retransmission, self.congestion_control, self.holders);
    archive.many(self.snapshot);
  }
};

}  // namespace uroce::service
