// The client's side of the connection manager: the objects behind the handles of <uroce/cm.h>.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <uroce/cm.h>

#include "message/cm_calls.h"
#include "message/cm_messages.h"
#include "message/connection.h"
#include "message/pipe_wait.h"

namespace uroce::client {

class QpImpl;

/// Facts that came with an id's last event. This saves calls, and is valid until the program makes a call for the id.
struct CmKnown {
  std::optional<CmIdInfo> info{};
  std::vector<message::ModifyStep> steps{};
  message::CmCallMask welcome{};  ///< calls that need no reply
};

/// A program's use of a connection manager, that of the daemon or that of this process.
class CmImpl {
 public:
  virtual ~CmImpl() = default;

  virtual message::CmCalls& calls() = 0;
  struct NewChannel {
    uint32_t number;
    message::Fd fd;  ///< one byte per event; ends with the manager
    /// Of a manager in this process: counts on after each change of the descriptor.
    std::shared_ptr<const std::atomic<uint64_t>> changes{};
  };
  virtual Result<NewChannel> create_channel() = 0;
  /// A call for an id with its queue pair. `welcome`: nothing needs to wait for its result. Errors: EINVAL (the queue
  /// pair is not where the manager is).
  virtual Result<void> connect(uint32_t id, const CmParam& param, const QpImpl& qp, bool welcome) = 0;
  virtual Result<void> accept(uint32_t id, const CmParam& param, const QpImpl& qp, bool welcome) = 0;
  virtual Result<void> disconnect(uint32_t id, const QpImpl& qp, bool welcome) = 0;
  /// Welcome calls.
  virtual Result<void> post_resolve_route(uint32_t id) { return calls().resolve_route(id); }
  virtual Result<void> post_destroy_id(uint32_t id) { return calls().destroy_id(id); }
  /// False in a child of fork(): the ids belong to the parent.
  virtual bool mine() const = 0;
  /// Waits until the descriptor of a channel is readable.
  virtual message::Wake sleep(int fd, std::chrono::nanoseconds timeout) = 0;

  /// The new id of a connect request, before the application adopts it.
  struct Request {
    std::weak_ptr<CmChannelImpl> channel;
    CmKnown known;
  };
  void add_request(uint32_t id, Request request) {
    const std::scoped_lock lock(mutex_);
    requests_[id] = std::move(request);
  }
  std::optional<Request> take_request(uint32_t id) {
    const std::scoped_lock lock(mutex_);
    auto found = requests_.extract(id);
    return found ? std::optional(std::move(found.mapped())) : std::nullopt;
  }

 private:
  std::mutex mutex_;                      // guards requests_
  std::map<uint32_t, Request> requests_;  // by id
};

/// One call takes several events from the manager; take() returns them one by one. The pipe has one byte per event
/// that take() has not returned, so it polls readable while events are left on either side.
class CmChannelImpl : public std::enable_shared_from_this<CmChannelImpl> {
 public:
  CmChannelImpl(std::shared_ptr<CmImpl> manager, CmImpl::NewChannel made)
      : manager_(std::move(manager)),
        number_(made.number),
        fd_(std::move(made.fd)),
        changes_(std::move(made.changes)) {}
  ~CmChannelImpl();
  CmChannelImpl(const CmChannelImpl&) = delete;
  CmChannelImpl& operator=(const CmChannelImpl&) = delete;

  const std::shared_ptr<CmImpl>& manager() const { return manager_; }
  uint32_t number() const { return number_; }
  int fd() const { return fd_.get(); }
  /// Delivers the id's events here from now on.
  void add(uint32_t id, CmIdImpl& object);
  void remove(uint32_t id);
  /// Discards the undelivered events of an id that was destroyed.
  void drop_events(uint32_t id);
  /// Marks the id's state in undelivered events as stale.
  void forget_known(uint32_t id);
  /// Errors: the manager's.
  Result<void> migrate(uint32_t id, CmChannelImpl& to);
  std::optional<CmEvent> take();
  std::optional<CmEvent> wait(std::chrono::nanoseconds timeout);

 private:
  enum class Token { none, there, ended };
  Token take_token();
  /// Removes the id's events from taken_ and returns them; their bytes stay in the pipe. The caller holds take_mutex_.
  std::vector<message::CmEventRecord> extract(uint32_t id);
  CmEvent deliver(message::CmEventRecord record);
  std::optional<CmEvent> report_end();

  std::shared_ptr<CmImpl> manager_;
  const uint32_t number_;
  message::Fd fd_;
  const std::shared_ptr<const std::atomic<uint64_t>> changes_;  // null with the daemon
  std::mutex take_mutex_;                     // guards taken_, writes of empty_at_ and reads of the pipe
  std::atomic<uint64_t> empty_at_{0};         // the value of changes_ before the pipe was found empty
  std::deque<message::CmEventRecord> taken_;  // from the manager, not delivered
  std::mutex mutex_;                          // guards ids_ and reported_; lock order: take_mutex_, then mutex_
  std::map<uint32_t, CmIdImpl*> ids_;         // the ids whose events come here
  std::set<uint32_t> reported_;               // the ids that got device_removal when the manager went
};

class CmIdImpl {
 public:
  CmIdImpl(std::shared_ptr<CmChannelImpl> channel, uint32_t number, CmKnown known = {})
      : channel_(std::move(channel)), known_(std::move(known)), number_(number) {
    channel_->add(number_, *this);
  }
  ~CmIdImpl();
  CmIdImpl(const CmIdImpl&) = delete;
  CmIdImpl& operator=(const CmIdImpl&) = delete;

  uint32_t number() const { return number_; }
  CmImpl& manager() const { return *manager_; }
  /// `call` with the manager's calls and the id's number.
  template <class Call>
  Result<void> send(Call call) {
    forget_welcome();
    return call(manager_->calls(), number_);
  }
  /// A call that may change the id's state: forgets what is known.
  template <class Call>
  Result<void> change(Call call) {
    auto changed = call(manager_->calls(), number_);
    forget();
    return changed;
  }
  Result<void> connect(const CmParam& param, const std::shared_ptr<QpImpl>& qp);
  Result<void> accept(const CmParam& param, QpImpl& qp);
  Result<void> disconnect(QpImpl& qp);
  Result<void> resolve_route();
  /// Its port is one that programs know, so that the next may wait for it.
  void has_known_port() { known_port_ = true; }
  Result<void> migrate(std::shared_ptr<CmChannelImpl> to);
  /// An event of the id is delivered.
  void on_event(CmEventType type, CmKnown known);
  CmKnown known() const {
    const std::scoped_lock lock(mutex_);
    return known_;
  }

 private:
  /// All calls need a reply from now on, until the next event.
  void forget_welcome() {
    const std::scoped_lock lock(mutex_);
    known_.welcome = {};
  }
  /// Whether the call needs no reply. Then as forget_welcome().
  bool take_welcome(message::CmCall call) {
    const std::scoped_lock lock(mutex_);
    return std::exchange(known_.welcome, {}).has(call);
  }
  void forget() {
    channel()->forget_known(number_);
    const std::scoped_lock lock(mutex_);
    known_ = {};
  }
  std::shared_ptr<CmChannelImpl> channel() const {
    const std::scoped_lock lock(mutex_);
    return channel_;
  }

  std::shared_ptr<CmChannelImpl> channel_;
  std::shared_ptr<CmImpl> manager_ = channel_->manager();
  mutable std::mutex mutex_;  // guards channel_, known_, connecting_; lock order: the channel's mutex first
  CmKnown known_;
  std::weak_ptr<QpImpl> connecting_;  // the manager moves it when the peer has answered
  std::atomic<bool> known_port_{false};
  const uint32_t number_;
};

}  // namespace uroce::client
