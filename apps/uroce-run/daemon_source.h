// The daemon's devices, objects and counters, for programs that ask the kernel.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/device_link.h"
#include "message/operator_messages.h"
#include "nldev/answer.h"
#include "verbs_library.h"

namespace uroce::run {

/// Connects to the daemon when it is first asked.
class DaemonSource : public nldev::Source {
 public:
  /// `devices` must outlive this.
  explicit DaemonSource(const OpenDevices& devices) : devices_(devices) {}

  std::vector<nldev::Device> devices() override;
  std::expected<std::vector<nldev::Object>, int> objects(nldev::Table table, const nldev::Device& device) override;
  std::expected<nldev::Counters, int> counters(const nldev::Device& device) override;
  /// In the daemon's names.
  std::expected<nldev::Counters, int> own_counters(const std::string& device);
  /// Until it is asked again. A connection and open devices are of a user's budget.
  void disconnect();

 private:
  /// The programs' open devices, by number. This process is left out.
  std::expected<std::map<uint32_t, message::ClientRow>, int> clients();
  /// A connection that is lost is made again.
  std::expected<client::DaemonLink*, int> link();

  const OpenDevices& devices_;
  std::shared_ptr<client::DaemonLink> link_;
  std::map<std::string, std::shared_ptr<client::DeviceLink>> opened_;
};

}  // namespace uroce::run
