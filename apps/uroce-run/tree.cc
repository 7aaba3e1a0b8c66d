#include "tree.h"

#include <cctype>
#include <cstdio>
#include <string>

#include "gid.h"
#include "text.h"

namespace uroce::run {

namespace fs = std::filesystem;

namespace {

std::string guid_text(uint64_t guid) {
  char text[20];
  std::snprintf(text, sizeof(text), "%04x:%04x:%04x:%04x", static_cast<unsigned>(guid >> 48 & 0xffff),
                static_cast<unsigned>(guid >> 32 & 0xffff), static_cast<unsigned>(guid >> 16 & 0xffff),
                static_cast<unsigned>(guid & 0xffff));
  return text;
}

std::string gid_text(const ibv_gid& gid) {
  std::string text;
  for (int i = 0; i < 16; i += 2) {
    char part[6];
    std::snprintf(part, sizeof(part), "%02x%02x%s", gid.raw[i], gid.raw[i + 1], i < 14 ? ":" : "");
    text += part;
  }
  return text;
}

std::string hex(uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof(text), "0x%x", value);
  return text;
}

std::string mac_text(uint64_t guid) {
  const auto mac = mac_of(guid);
  char text[20];
  std::snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
  return text;
}

bool write_port(const fs::path& port, const DeviceView& device, const std::string& interface) {
  const bool up = device.port.state == IBV_PORT_ACTIVE;
  bool ok = write_line(port / "state", up ? "4: ACTIVE" : "1: DOWN");
  ok &= write_line(port / "phys_state", up ? "5: LinkUp" : "2: Polling");
  ok &= write_line(port / "rate", "100 Gb/sec (4X EDR)");
  ok &= write_line(port / "link_layer", "Ethernet");
  ok &= write_line(port / "cap_mask", hex(device.port.port_cap_flags));
  for (const char* name : {"lid", "sm_lid"}) ok &= write_line(port / name, "0x0");
  for (const char* name : {"lid_mask_count", "sm_sl"}) ok &= write_line(port / name, "0");
  ok &= write_line(port / "pkeys/0", "0xffff");
  for (std::size_t i = 0; i < device.gids.size(); ++i) {
    const std::string index = std::to_string(i);
    ok &= write_line(port / "gids" / index, gid_text(device.gids[i]));
    const fs::path type = port / "gid_attrs/types" / index, holder = port / "gid_attrs/ndevs" / index;
    if (is_empty(device.gids[i])) {  // in the kernel, reading these of an empty one fails too
      std::error_code ignored;
      fs::remove(type, ignored);
      fs::remove(holder, ignored);
      continue;
    }
    ok &= write_line(type, "RoCE v2");
    // Programs expect a name. Without an interface of the kernel it is the device's.
    ok &= write_line(holder, interface.empty() ? device.name : interface);
  }
  return ok;
}

/// A character device that can be opened, read and written, as programs demand of one: a link to the kernel's
/// /dev/null. Making a real one needs root. Programs talk to the device through libibverbs, never through this file.
bool write_node(const fs::path& node) {
  std::error_code failed;
  if (fs::is_symlink(node, failed)) return true;
  fs::create_directories(node.parent_path(), failed);
  fs::create_symlink("/dev/null", node, failed);
  return !failed;
}

bool write_device(const fs::path& classes, const DeviceView& device) {
  const fs::path at = classes / "infiniband" / device.name;
  const std::string interface = interface_of(device.guid);
  bool ok = write_line(at / "node_type", "1: CA");
  ok &= write_line(at / "node_guid", guid_text(device.guid));
  ok &= write_line(at / "sys_image_guid", guid_text(device.guid));
  ok &= write_line(at / "node_desc", device.name);
  ok &= write_line(at / "fw_ver", device.firmware);
  ok &= write_line(at / "hca_type", "uroce");
  ok &= write_line(at / "board_id", "uroce");
  ok &= write_line(at / "device/vendor", hex(device.vendor_id));
  ok &= write_line(at / "device/device", hex(device.part_id));
  ok &= write_line(at / "device/numa_node", "-1");
  ok &= write_port(at / "ports/1", device, interface);
  std::error_code failed;
  if (!interface.empty() && !fs::is_symlink(at / "device/net" / interface)) {
    fs::create_directories(at / "device/net", failed);
    fs::create_directory_symlink("/sys/class/net/" + interface, at / "device/net" / interface, failed);
  }
  const fs::path verbs = classes / "infiniband_verbs" / device.verbs_name;
  ok &= write_line(verbs / "ibdev", device.name);
  ok &= write_line(verbs / "abi_version", "1");
  return ok && !failed;
}

}  // namespace

std::string interface_of(uint64_t guid) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/sys/class/net", ignored)) {
    if (read_line(entry.path() / "address") == mac_text(guid)) return entry.path().filename();
  }
  return {};
}

bool write_tree(const fs::path& root, const std::vector<DeviceView>& devices) {
  bool ok = write_line(root / "class/infiniband_verbs/abi_version", "6");
  std::error_code ignored;
  fs::create_directories(root / "class/infiniband", ignored);
  ok &= write_node(root / "dev/infiniband/rdma_cm");
  for (const DeviceView& device : devices) {
    ok &= write_device(root / "class", device);
    ok &= write_node(root / "dev/infiniband" / device.verbs_name);
  }
  return ok;
}

}  // namespace uroce::run
