// One program's calls: its ids and event channels, under the manager's lock.
#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cm/manager_impl.h"

namespace uroce::cm {

class User final : public ManagerUser {
 public:
  User(std::shared_ptr<Manager::Impl> manager, const UserLimits& limits);
  ~User() override;
  /// The caller holds the manager's lock.
  void end();

  Result<std::pair<uint32_t, int>> create_channel() override;
  std::shared_ptr<const std::atomic<uint64_t>> changes(uint32_t channel) override;
  Result<void> destroy_channel(uint32_t channel) override;
  Result<std::vector<message::CmEventRecord>> take_events(uint32_t channel, std::size_t most) override;
  Result<uint32_t> create_id(uint32_t channel, PortSpace space, QpType type) override;
  Result<void> destroy_id(uint32_t number) override;
  Result<CmIdInfo> info(uint32_t number) override;
  Result<void> bind(uint32_t number, const CmAddress& local) override {
    return with(number, [&](Id& id) { return manager_.bind(id, local, limits_.privileged_ports); });
  }
  Result<void> resolve_addr(uint32_t number, const std::optional<CmAddress>& local, const CmAddress& remote,
                            std::chrono::milliseconds timeout) override;
  Result<void> resolve_route(uint32_t number) override;
  Result<void> listen(uint32_t number, int backlog) override;
  Result<void> connect(uint32_t number, const CmParam& param) override {
    return with(number, [&](Id& id) { return manager_.connect(id, param); });
  }
  Result<void> connect_qp(uint32_t number, const CmParam& param,
                          const std::shared_ptr<control::ControlQp>& qp) override;
  Result<void> accept_qp(uint32_t number, const CmParam& param, const std::shared_ptr<control::ControlQp>& qp) override;
  std::unique_lock<std::mutex> keep_queue_pairs() override { return std::unique_lock(owner_.queue_pairs); }
  Result<void> establish(uint32_t number) override;
  Result<void> accept(uint32_t number, const CmParam& param) override {
    return with(number, [&](Id& id) { return manager_.accept(id, param); });
  }
  Result<void> reject(uint32_t number, std::span<const std::byte> private_data, uint8_t reason) override {
    return with(number, [&](Id& id) { return manager_.reject(id, private_data, reason); });
  }
  Result<void> disconnect(uint32_t number) override {
    return with(number, [&](Id& id) { return manager_.disconnect(id); });
  }
  void report_failure(uint32_t number, int code) override;
  Result<void> notify_established(uint32_t number) override;
  Result<std::pair<QpAttr, QpAttrMask>> qp_attr(uint32_t number, QpState state) override;
  Result<void> set_option(uint32_t number, message::CmOption option, uint8_t value) override;
  Result<void> join(uint32_t number, const CmAddress& group, uint64_t token) override;
  Result<void> leave(uint32_t number, const CmAddress& group) override;
  Result<void> raise_event(uint32_t number, CmEventType type, int status, uint64_t argument) override;
  Result<void> migrate(uint32_t number, uint32_t channel, uint32_t taken) override;

  ProgramSnapshot snapshot() override;
  Result<void> adopt(ProgramSnapshot snapshot, std::vector<control::EventPipe> pipes) override;
  void abandon() override;
  /// The caller holds the manager's lock: bytes that adopted channels owe are paid once it is free.
  void pay_what_is_owed();

  uint32_t client() const { return limits_.client; }
  /// The caller holds the manager's lock.
  const std::set<uint32_t>& ids() const { return owner_.ids; }

 private:
  message::CmEventRecord report(CmEvent event);
  static CmIdInfo info_of(const Id& id);
  static std::unexpected<Error> manager_ended() {
    return fail(ENODEV, "the connection manager has ended with the stack of its devices; open another one");
  }
  std::unexpected<Error> no_channel(uint32_t channel) const;
  Result<void> adopt_channels(const ProgramSnapshot& snapshot, std::vector<control::EventPipe> pipes);
  Result<void> adopt_ids(std::vector<IdSnapshot> snapshots);
  Result<void> adopt_event(uint32_t channel, CmEvent event);
  /// The places of its listeners' requests in their backlogs, by connection.
  std::map<std::pair<const CmAgent*, uint32_t>, uint32_t> turns_of_requests() const;
  /// 0: the program has destroyed it.
  uint32_t number_of(const EventChannel& channel) const;
  static Result<void> check_kind(PortSpace space, QpType type);
  Result<Id*> find(uint32_t number) const;
  template <class Work>
  Result<void> with(uint32_t number, Work work) {
    const Manager::Guard guard(manager_);
    auto id = find(number);
    if (!id) return std::unexpected(id.error());
    Result<void> done = work(**id);
    manager_.reschedule();
    return done;
  }

  const std::shared_ptr<Manager::Impl> alive_;
  Manager::Impl& manager_;
  const UserLimits limits_;
  Owner owner_;
  std::map<uint32_t, std::shared_ptr<EventChannel>> channels_;
  uint32_t last_channel_ = 0;
};

}  // namespace uroce::cm
