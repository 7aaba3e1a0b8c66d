// The sockets by which a device beside the kernel asks it, hears of changes, and makes it find neighbours. They are
// opened before privileges are given up, and need none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <uroce/error.h>
#include <uroce/types.h>

struct mnl_socket;

namespace uroce::glue {

class KernelNetlink {
 public:
  /// Opens it for the interface with index `interface`. Errors: the system's.
  static Result<std::unique_ptr<KernelNetlink>> open(uint32_t interface);
  ~KernelNetlink();
  KernelNetlink(const KernelNetlink&) = delete;
  KernelNetlink& operator=(const KernelNetlink&) = delete;

  /// From now on for another interface, on which it joins all groups again.
  void move_to(uint32_t interface);
  /// Sends a request. Its answer can be received when this returns.
  void ask(std::span<const std::byte> request);
  /// Receives what there is, at most `limit` datagrams of each kind, without waiting. False when messages were lost.
  using Take = std::function<void(std::span<const std::byte>)>;
  bool receive(int limit, const Take& answers, const Take& news);
  /// Readable when there is news.
  int news_descriptor() const;

  /// Sends an empty UDP datagram to a neighbour's discard port (RFC 863), so that the kernel finds it, or looks whether
  /// it is still there. Returns an errno value, 0 for success.
  int knock(const Gid& neighbour) const;

  /// Joins a multicast group on the interface until leave(), so that the kernel receives and reports it. Errors: the
  /// system's.
  Result<void> join(const Gid& group);
  void leave(const Gid& group);

 private:
  using Socket = std::unique_ptr<mnl_socket, int (*)(mnl_socket*)>;

  KernelNetlink(uint32_t interface, Socket asking, Socket news);
  bool receive(const mnl_socket* socket, int limit, const Take& take);

  uint32_t interface_;
  const Socket asking_;
  const Socket news_;
  std::vector<std::byte> buffer_;
  int knocker4_ = -1, knocker6_ = -1;
  std::map<Gid, int> groups_;  ///< a socket for each, because the kernel limits the groups of a socket
};

}  // namespace uroce::glue
