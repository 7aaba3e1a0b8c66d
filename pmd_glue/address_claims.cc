#include "pmd_glue/address_claims.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

#include "net/address.h"
#include "pmd_glue/notes.h"

namespace uroce::glue {

namespace {

/// A name whose holder does not answer is about to be one that listens, or has just been given up.
constexpr int kTries = 100;
constexpr std::chrono::milliseconds kPause{1};

struct Name {
  sockaddr_un address{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

// An abstract name begins with a zero byte.
Name name_of(std::string_view interface, uint32_t vlan, const Gid& gid) {
  const std::string text = fmt::format("uroce-address/{}/{}/{}", interface, vlan, net::to_text(gid));
  Name out;
  out.address.sun_family = AF_UNIX;
  const std::size_t length = text.copy(out.address.sun_path + 1, sizeof out.address.sun_path - 1);
  out.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return out;
}

std::string claim_name(const std::string& device, const Gid& gid) {
  return fmt::format("{} claim {}", device, net::to_text(gid));
}

int new_socket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

/// The process that listens on the name, as it was when it began to; nothing if none does, or too many ask it.
std::optional<ClaimHolder> holder_of(const Name& name) {
  const int fd = new_socket();
  if (fd < 0) return std::nullopt;
  ucred who{};
  socklen_t length = sizeof who;
  const bool known =
      connect(fd, name.get(), name.length) == 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0;
  close(fd);
  if (!known) return std::nullopt;
  return ClaimHolder{who.pid, who.uid};
}

/// Whether the user has a packet socket on the interface. Making one takes a right that ordinary users lack.
bool has_packet_socket(uid_t user, unsigned index) {
  std::ifstream table("/proc/net/packet");
  table.ignore(std::numeric_limits<std::streamsize>::max(), '\n');  // sk RefCnt Type Proto Iface R Rmem User Inode
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string skipped;
    unsigned on = 0;
    uid_t of = 0;
    if (words >> skipped >> skipped >> skipped >> skipped >> on >> skipped >> skipped >> of && on == index &&
        of == user)
      return true;
  }
  return false;
}

}  // namespace

AddressClaims::AddressClaims(unsigned index, std::string interface, uint32_t vlan)
    : index_(index), interface_(std::move(interface)), vlan_(vlan) {}

AddressClaims::~AddressClaims() { keep({}); }

std::optional<ClaimHolder> AddressClaims::claim(const Gid& gid) {
  if (claims_.contains(gid)) return std::nullopt;
  const Name name = name_of(interface_, vlan_, gid);
  std::optional<ClaimHolder> holder;
  for (int i = 0; i < kTries && !holder; ++i) {
    if (i != 0) std::this_thread::sleep_for(kPause);
    const int fd = new_socket();
    if (fd >= 0 && bind(fd, name.get(), name.length) == 0 && listen(fd, SOMAXCONN) == 0) {
      claims_[gid] = fd;
      return std::nullopt;
    }
    const bool in_use = fd >= 0 && errno == EADDRINUSE;
    if (fd >= 0) close(fd);
    if (!in_use) {
      claims_[gid] = -1;  // no Unix sockets here, so nobody else has a claim either
      return std::nullopt;
    }
    holder = holder_of(name);
  }
  if (holder && may_have_port(*holder)) return holder;
  claims_[gid] = -1;
  tell_of_stranger(gid, holder);
  return std::nullopt;
}

void AddressClaims::lend(message::Belongings& belongings, const std::string& device) const {
  for (const auto& [gid, fd] : claims_) belongings.lend(claim_name(device, gid), fd);
}

void AddressClaims::inherit(message::Belongings& belongings, const std::string& device, const Gid& gid) {
  message::Fd fd = belongings.take(claim_name(device, gid));
  const Name name = name_of(interface_, vlan_, gid);
  if (claims_.contains(gid) || !message::is_socket(fd.get(), AF_UNIX, SOCK_STREAM)) return;
  if (message::is_bound_to(fd.get(), name.get(), name.length)) claims_[gid] = fd.release();
}

// The kernel notes the process that listens (SO_PEERCRED).
void AddressClaims::become_holder() const {
  for (const auto& [gid, fd] : claims_) {
    if (fd >= 0) listen(fd, SOMAXCONN);
  }
}

void AddressClaims::keep(std::span<const Gid> gids) {
  std::erase_if(claims_, [&](const auto& entry) {
    if (std::ranges::find(gids, entry.first) != gids.end()) return false;
    if (entry.second >= 0) close(entry.second);
    return true;
  });
}

// A daemon claims before it opens its socket, and one that has given up root did both before.
bool AddressClaims::may_have_port(const ClaimHolder& holder) const {
  return holder.uid == 0 || holder.uid == geteuid() || has_packet_socket(holder.uid, index_);
}

void AddressClaims::tell_of_stranger(const Gid& gid, const std::optional<ClaimHolder>& holder) const {
  const std::string who =
      holder ? fmt::format("process {} of user {}", holder->pid, holder->uid) : std::string("a process");
  note(
      fmt::format("interface {}: {} has the Unix socket by which programs of uroce claim {}, and no port here; it is "
                  "ignored, and another program of uroce with this address would not be noticed",
                  interface_, who, net::to_text(gid)));
}

}  // namespace uroce::glue
