// The drop-in library, used like any program would: loads it by its path and asks for its devices.
#pragma once

#include <infiniband/verbs.h>

#include <filesystem>
#include <string>
#include <vector>

namespace uroce::run {

/// The facts about one device for the tree below /sys.
struct DeviceView {
  std::string name;
  std::string verbs_name;
  uint64_t guid = 0;
  std::string firmware;
  uint32_t vendor_id = 0;
  uint32_t part_id = 0;
  uint32_t capabilities = 0;
  ibv_port_attr port{};
  std::vector<ibv_gid> gids;  ///< the whole table; empty entries are zero
};

class VerbsLibrary;

/// The daemon's devices, open.
class OpenDevices {
 public:
  /// Leaves those out that cannot be opened. `library` must outlive this.
  explicit OpenDevices(const VerbsLibrary& library);
  OpenDevices(const OpenDevices&) = delete;
  OpenDevices& operator=(const OpenDevices&) = delete;
  ~OpenDevices();

  std::vector<DeviceView> views() const;
  /// Descriptors that are readable when a device has changed.
  std::vector<int> event_fds() const;
  /// Takes the events that made them readable. False when there can be no more, because the daemon has ended.
  bool take_events();

 private:
  const VerbsLibrary& library_;
  std::vector<ibv_context*> contexts_;
};

class VerbsLibrary {
 public:
  /// Throws std::runtime_error when loading fails.
  explicit VerbsLibrary(const std::filesystem::path& path);

  /// Number of devices; -1 with errno when the daemon refuses the connection.
  int count() const;

 private:
  friend class OpenDevices;
  DeviceView view(ibv_context* context) const;

  decltype(&::ibv_get_device_list) get_list_;
  decltype(&::ibv_free_device_list) free_list_;
  decltype(&::ibv_open_device) open_;
  decltype(&::ibv_close_device) close_;
  decltype(&::ibv_query_device) query_device_;
  decltype(&::ibv_query_gid) query_gid_;
  decltype(&::ibv_get_async_event) get_async_event_;
  decltype(&::ibv_ack_async_event) ack_async_event_;
};

}  // namespace uroce::run
