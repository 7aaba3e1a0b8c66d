#include "nvmf/identify.h"

#include <uroce/version.h>

#include <algorithm>
#include <cstring>

#include "nvmf/sizes.h"

namespace uroce::nvmf {

void put_text(std::span<char> field, std::string_view text, char pad) {
  std::ranges::fill(field, pad);
  std::copy_n(text.begin(), std::min(text.size(), field.size()), field.begin());
}

nvme::IdentifyController identify_controller(const Subsystem& subsystem, uint16_t controller_id) {
  nvme::IdentifyController page{};
  put_text(page.serial_number, subsystem.serial, ' ');
  put_text(page.model_number, "uroce_nvmf", ' ');
  put_text(page.firmware, kVersion, ' ');
  put_text(page.subnqn, subsystem.nqn, '\0');
  page.mdts = kMdts;
  page.cntlid = controller_id;
  page.version = nvme::kVersion;
  page.ctratt = 1u << 0 | 1u << 6;  // host identifiers of 128 bits; every command restarts the keep alive timer
  page.cntrltype = subsystem.discovery ? 2 : 1;
  page.acl = 3;
  page.aerl = kAsyncEvents - 1;
  page.frmw = 1u << 0 | 1u << 1;  // one slot, read-only
  page.lpa = 1u << 2;             // Get Log Page with an offset
  page.kas = 10;
  page.maxcmd = kQueueEntries;
  page.sgls = 1u << 0 | 1u << 2 | 1u << 20;  // SGLs, keyed ones, and offsets into the capsule
  page.ioccsz = (sizeof(nvme::Command) + (subsystem.discovery ? 0 : kInCapsuleBytes)) / 16;
  page.iorcsz = sizeof(nvme::Response) / 16;
  page.msdbd = 1;
  if (subsystem.discovery) return page;
  page.oaes = nvme::kNamespaceNotices;
  page.cmic = 1u << 0 | 1u << 1;  // a subsystem may have several ports and controllers
  page.wctemp = nvme::kWarningKelvin;
  page.cctemp = nvme::kCriticalKelvin;
  page.sqes = 6u << 4 | 6;
  page.cqes = 4u << 4 | 4;
  page.nn = static_cast<uint32_t>(subsystem.namespaces.size());
  page.mnan = page.nn;
  page.oncs = 1u << 2 | 1u << 3;  // Dataset Management, Write Zeroes
  page.vwc = 1u << 0;
  return page;
}

nvme::IdentifyNamespace identify_namespace(const Namespace& one) {
  nvme::IdentifyNamespace page{};
  page.nsze = page.ncap = page.nuse = one.blocks();
  page.nmic = 1;  // controllers share it
  page.nguid = one.nguid;
  page.formats[0].lbads = one.block_shift;
  return page;
}

void identify_active_list(const Subsystem& subsystem, uint32_t after, std::span<std::byte, nvme::kPageBytes> out) {
  std::ranges::fill(out, std::byte{0});
  std::size_t at = 0;
  for (const Namespace& one : subsystem.namespaces) {
    if (one.nsid <= after || at == out.size()) continue;
    std::memcpy(out.data() + at, &one.nsid, sizeof one.nsid);
    at += sizeof one.nsid;
  }
}

void identify_descriptors(const Namespace& one, std::span<std::byte, nvme::kPageBytes> out) {
  std::ranges::fill(out, std::byte{0});
  out[0] = std::byte{nvme::kNguid};
  out[1] = std::byte{static_cast<uint8_t>(one.nguid.size())};
  std::memcpy(out.data() + 4, one.nguid.data(), one.nguid.size());
}

nvme::HealthLog health_log() {
  nvme::HealthLog page{};
  page.temperature = {0x36, 0x01};  // 310 K
  page.available_spare = 100;
  page.spare_threshold = 10;
  return page;
}

nvme::FirmwareLog firmware_log() {
  nvme::FirmwareLog page{};
  page.active_slot = 1;
  put_text(page.revisions[0], kVersion, ' ');
  return page;
}

}  // namespace uroce::nvmf
