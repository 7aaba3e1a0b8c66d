#include "tree.h"

#include <cctype>
#include <cstdio>
#include <string>

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

bool is_empty(const ibv_gid& gid) { return gid.global.subnet_prefix == 0 && gid.global.interface_id == 0; }

std::string hex(uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof(text), "0x%x", value);
  return text;
}

/// The MAC address in a GUID (EUI-64, RFC 4291 appendix A).
std::string mac_text(uint64_t guid) {
  char text[20];
  std::snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", static_cast<unsigned>((guid >> 56 & 0xff) ^ 2),
                static_cast<unsigned>(guid >> 48 & 0xff), static_cast<unsigned>(guid >> 40 & 0xff),
                static_cast<unsigned>(guid >> 16 & 0xff), static_cast<unsigned>(guid >> 8 & 0xff),
                static_cast<unsigned>(guid & 0xff));
  return text;
}

/// The kernel's interface with this address, as an af_packet or tap port has one; empty when there is none.
std::string interface_of(uint64_t guid) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/sys/class/net", ignored)) {
    if (read_line(entry.path() / "address") == mac_text(guid)) return entry.path().filename();
  }
  return {};
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
    if (is_empty(device.gids[i])) continue;  // in the kernel, reading an empty one fails too
    ok &= write_line(port / "gid_attrs/types" / index, "RoCE v2");
    // Programs expect a name. Without an interface of the kernel it is the device's.
    ok &= write_line(port / "gid_attrs/ndevs" / index, interface.empty() ? device.name : interface);
  }
  return ok;
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
  if (!interface.empty()) {
    fs::create_directories(at / "device/net", failed);
    fs::create_directory_symlink("/sys/class/net/" + interface, at / "device/net" / interface, failed);
  }
  const fs::path verbs = classes / "infiniband_verbs" / device.verbs_name;
  ok &= write_line(verbs / "ibdev", device.name);
  ok &= write_line(verbs / "abi_version", "1");
  return ok && !failed;
}

}  // namespace

bool write_tree(const fs::path& root, const std::vector<DeviceView>& devices) {
  bool ok = write_line(root / "class/infiniband_verbs/abi_version", "6");
  std::error_code ignored;
  fs::create_directories(root / "class/infiniband", ignored);
  for (const DeviceView& device : devices) ok &= write_device(root / "class", device);
  return ok;
}

}  // namespace uroce::run
