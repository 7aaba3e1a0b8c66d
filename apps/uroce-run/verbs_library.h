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
  ibv_port_attr port{};
  std::vector<ibv_gid> gids;  ///< the whole table; empty entries are zero
};

class VerbsLibrary {
 public:
  /// Throws std::runtime_error when loading fails.
  explicit VerbsLibrary(const std::filesystem::path& path);

  /// Number of devices; -1 with errno when the daemon refuses the connection.
  int count() const;
  /// Opens the devices one by one. Leaves those out that cannot be opened.
  std::vector<DeviceView> devices() const;

 private:
  DeviceView view(ibv_device* device, ibv_context* context) const;

  decltype(&::ibv_get_device_list) get_list_;
  decltype(&::ibv_free_device_list) free_list_;
  decltype(&::ibv_open_device) open_;
  decltype(&::ibv_close_device) close_;
  decltype(&::ibv_query_device) query_device_;
  decltype(&::ibv_query_gid) query_gid_;
};

}  // namespace uroce::run
