// One side's verbs objects: device, memory, completion queues, QPs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <uroce/verbs/context.h>

#include "perf/cm_connector.h"
#include "perf/exchange.h"
#include "perf/memory.h"
#include "perf/options.h"

namespace uroce::perf {

class Endpoint {
 public:
  /// Errors: the device's; EINVAL for options that it cannot serve (-m, -x, -q).
  static Result<std::unique_ptr<Endpoint>> create(Context context, const Options& options);

  /// With -R: connects by `connector`. Call it before hello().
  void use_rdma_cm(std::unique_ptr<CmConnector> connector) { connector_ = std::move(connector); }
  /// The address of this side.
  const Gid& gid() const { return info().gids[gid_index_]; }

  Hello hello() const;
  /// Moves all QPs to RTS; with rdma_cm it begins that, and connected() goes on. Errors: EINVAL (the peer's parameters
  /// do not fit), EHOSTUNREACH (nobody answers at its address).
  Result<void> connect(const Hello& peer);
  /// Whether all QPs are at RTS. Errors: those of CmConnector::step().
  Result<bool> connected();

  const DeviceInfo& info() const { return context_.info(); }
  Context& context() { return context_; }
  /// True when the port's link is up now.
  bool link_up();
  uint32_t path_mtu() const { return path_mtu_; }  ///< bytes; the port's until connected
  uint32_t outs() const { return outs_; }          ///< READs and atomics outstanding
  uint8_t gid_index() const { return gid_index_; }
  const Hello& peer() const { return peer_; }
  std::vector<QueuePair>& qps() { return qps_; }
  CompletionQueue& send_cq() { return *send_cq_; }
  CompletionQueue& recv_cq() { return recv_cq_ ? *recv_cq_ : *send_cq_; }
  bool has_recv_cq() const { return recv_cq_.has_value(); }
  /// Set with -e only.
  CompletionChannel* channel() { return channel_ ? &*channel_ : nullptr; }
  uint32_t lkey() const { return region_->lkey(); }
  /// Memory of QP `qp`: the part that this side sends from or reads into, and the part that the peer accesses.
  std::byte* local(uint32_t qp) const { return buffer_.data() + qp * local_bytes_; }
  std::byte* exposed(uint32_t qp) const { return buffer_.data() + options_.qps * local_bytes_ + qp * exposed_bytes_; }
  uint64_t exposed_size() const { return exposed_bytes_; }
  /// Address of the memory that the peer exposes for QP `qp`.
  uint64_t remote(uint32_t qp) const { return peer_.remote_base + qp * peer_.remote_bytes; }

 private:
  Endpoint(Context context, const Options& options, Buffer buffer);
  Result<void> choose_gid();
  Result<void> check_mtu() const;
  Result<void> create_queues();
  Result<void> create_qps();
  Result<uint32_t> agree_mtu(const Hello& peer) const;
  Result<void> connect_directly(const Hello& peer);
  Result<void> connect_by_rdma_cm(const Hello& peer);
  std::string unreachable(const std::string& text);

  Context context_;
  const Options options_;
  Buffer buffer_;
  uint64_t local_bytes_;
  uint64_t exposed_bytes_;
  uint8_t gid_index_ = 0;
  bool link_up_ = false;
  uint32_t path_mtu_ = 0;
  uint32_t outs_ = 0;
  Hello peer_;
  std::optional<ProtectionDomain> pd_;
  std::optional<MemoryRegion> region_;
  std::optional<CompletionChannel> channel_;
  std::optional<CompletionQueue> send_cq_;
  std::optional<CompletionQueue> recv_cq_;
  std::vector<uint32_t> psns_;
  std::vector<QueuePair> qps_;
  std::unique_ptr<CmConnector> connector_;  ///< null without -R; ends before the QPs
};

/// "192.0.2.1" or "2001:db8::1".
std::string to_text(const Gid& gid);

}  // namespace uroce::perf
