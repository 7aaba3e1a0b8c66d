// The CM agent of a device.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include <uroce/types.h>

#include "base/counter.h"
#include "cm/gsi.h"
#include "cm/ib/ib_cm.h"
#include "control/device.h"

namespace uroce::cm {

struct Id;

/// One device's CM agent: its QP1 and the connections of all users.
struct CmAgent {
  CmAgent(std::shared_ptr<control::Device> of, std::unique_ptr<Gsi> qp1, const IbCmConfig& config)
      : device(std::move(of)), gsi(std::move(qp1)), cm(config) {}
  /// The index of `gid` in the device's GID table.
  std::optional<uint8_t> gid_index(const Gid& gid) const;

  std::shared_ptr<control::Device> device;
  std::unique_ptr<Gsi> gsi;
  IbCm cm;
  std::unordered_map<uint32_t, Id*> connections;  // by IbCm's id
  std::map<uint64_t, uint32_t> services;          // services with listeners, and how many they have
  Counter slowed;                                 // REQs that slows() dropped
  Gid last_slowed{};                              // the sender of the last of these
};

}  // namespace uroce::cm
