// A network namespace for the program, with an interface for each device.
#pragma once

#include <vector>

#include "verbs_library.h"

namespace uroce::run {

/// Moves this process into a network namespace of its own, where only the loopback interface is up. Without the right
/// to do that, also into a user namespace, in which its user and group stay. Call it before there is a second thread.
/// Throws std::runtime_error.
void enter_network_namespace();

/// Interfaces of that namespace with the devices' names, MAC addresses and addresses. The
/// addresses reach each other; packets to other hosts are lost.
class Interfaces {
 public:
  /// IPv4 addresses get a prefix of 24 bits, IPv6 addresses one of 64. Throws std::runtime_error.
  explicit Interfaces(const std::vector<DeviceView>& devices);
  Interfaces(const Interfaces&) = delete;
  Interfaces& operator=(const Interfaces&) = delete;
  ~Interfaces();

 private:
  std::vector<int> taps_;  // while they are open, the interfaces exist and have a carrier
};

}  // namespace uroce::run
