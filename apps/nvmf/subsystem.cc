#include "nvmf/subsystem.h"

#include <sodium/crypto_generichash.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "nvmf/nvme.h"

namespace uroce::nvmf {

namespace {

template <std::size_t N>
std::array<uint8_t, N> digest(const std::string& text) {
  std::array<uint8_t, crypto_generichash_BYTES_MIN> out;
  static_assert(N <= out.size());
  crypto_generichash(out.data(), out.size(), reinterpret_cast<const unsigned char*>(text.data()), text.size(), nullptr,
                     0);
  std::array<uint8_t, N> part;
  std::copy_n(out.begin(), N, part.begin());
  return part;
}

std::string serial_of(const std::string& nqn) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string serial;
  for (const uint8_t byte : digest<10>(nqn)) serial += {kDigits[byte >> 4], kDigits[byte & 15]};
  return serial;
}

Result<Namespace> open_namespace(const SubsystemSettings& subsystem, const NamespaceSettings& settings, uint32_t nsid) {
  auto backend = settings.path.empty() ? make_memory_backend(settings.memory_bytes) : open_file_backend(settings.path);
  if (!backend) return std::unexpected(backend.error());
  Namespace made{.nsid = nsid};
  made.block_shift = static_cast<uint8_t>(std::countr_zero((*backend)->block_bytes()));
  made.nguid = digest<16>(subsystem.nqn + '\n' + std::to_string(nsid));
  made.backend = std::move(*backend);
  return made;
}

}  // namespace

std::string fault_of_nqn(std::string_view nqn) {
  const std::string named = "the NQN '" + std::string(nqn) + "' ";
  if (nqn.size() > nvme::kMaxNqn) {
    return named + "has " + std::to_string(nqn.size()) + " bytes; at most " + std::to_string(nvme::kMaxNqn) +
           " are possible";
  }
  if (!nqn.starts_with("nqn.")) return named + "does not begin with nqn.; write nqn.YYYY-MM.REVERSED-DOMAIN:NAME";
  if (std::ranges::any_of(nqn, [](char c) { return c <= ' ' || c > '~'; })) {
    return named + "has characters beyond printable ASCII; use letters, digits, '.', ':' and '-'";
  }
  return {};
}

const Namespace* Subsystem::find(uint32_t nsid) const {
  return nsid >= 1 && nsid <= namespaces.size() ? &namespaces[nsid - 1] : nullptr;
}

Result<Subsystem> open_subsystem(const SubsystemSettings& settings) {
  if (auto fault = fault_of_nqn(settings.nqn); !fault.empty()) return fail(EINVAL, std::move(fault));
  for (const std::string& host : settings.hosts) {
    if (auto fault = fault_of_nqn(host); !fault.empty()) return fail(EINVAL, std::move(fault));
  }
  Subsystem made{.nqn = settings.nqn,
                 .serial = serial_of(settings.nqn),
                 .any_host = settings.hosts.empty(),
                 .hosts = {settings.hosts.begin(), settings.hosts.end()}};
  for (const NamespaceSettings& one : settings.namespaces) {
    auto opened = open_namespace(settings, one, static_cast<uint32_t>(made.namespaces.size()) + 1);
    if (!opened) return std::unexpected(opened.error());
    made.namespaces.push_back(std::move(*opened));
  }
  return made;
}

Subsystem discovery_subsystem() {
  return {.nqn = nvme::kDiscoveryNqn, .serial = serial_of(nvme::kDiscoveryNqn), .any_host = true, .discovery = true};
}

}  // namespace uroce::nvmf
