// What the handles of <uroce/cm.h> stand for, on the client's side of the daemon's socket.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <uroce/cm.h>

#include "client/daemon_link.h"
#include "message/cm_messages.h"

namespace uroce::client {

/// What an event told of its id besides: as good as asking the daemon, until a call changes the id.
struct CmKnown {
  std::optional<CmIdInfo> info{};
  std::vector<message::ModifyStep> steps{};
};

class CmImpl {
 public:
  explicit CmImpl(std::unique_ptr<DaemonLink> link) : link_(std::move(link)) {}

  template <class Reply, class Request>
  Result<Reply> call(message::Op op, const Request& request, std::vector<message::Fd>* fds = nullptr) {
    return link_->call<Reply>(op, request, {}, fds);
  }
  template <class Request>
  Result<void> tell(message::Op op, const Request& request) {
    auto done = call<message::Empty>(op, request);
    if (!done) return std::unexpected(done.error());
    return {};
  }
  bool mine() const { return link_->mine(); }

  /// A new id that nobody has adopted.
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
  std::unique_ptr<DaemonLink> link_;
  std::mutex mutex_;  // guards what follows
  std::map<uint32_t, Request> requests_;
};

/// Events are taken from the daemon many at a time, and handed on one by one. The pipe has a byte for each that was not
/// handed on yet, so that it polls readable while there are any, wherever they wait.
class CmChannelImpl : public std::enable_shared_from_this<CmChannelImpl> {
 public:
  CmChannelImpl(std::shared_ptr<CmImpl> manager, uint32_t number, message::Fd fd)
      : manager_(std::move(manager)), number_(number), fd_(std::move(fd)) {}
  ~CmChannelImpl();
  CmChannelImpl(const CmChannelImpl&) = delete;
  CmChannelImpl& operator=(const CmChannelImpl&) = delete;

  const std::shared_ptr<CmImpl>& manager() const { return manager_; }
  uint32_t number() const { return number_; }
  int fd() const { return fd_.get(); }
  /// Its events come here from now on.
  void add(uint32_t id, CmIdImpl& object);
  void remove(uint32_t id);
  /// The id is no more: nor are its events.
  void drop_events(uint32_t id);
  /// What waiting events know of the id is out of date.
  void forget_known(uint32_t id);
  /// Errors: the daemon's.
  Result<void> migrate(uint32_t id, CmChannelImpl& to);
  std::optional<CmEvent> take();
  std::optional<CmEvent> wait(std::chrono::nanoseconds timeout);

 private:
  enum class Token { none, there, ended };
  Token take_token();
  /// With take_mutex_ held: those taken events that are the id's, without their bytes.
  std::vector<message::CmEventRecord> extract(uint32_t id);
  CmEvent hand_on(message::CmEventRecord told);
  std::optional<CmEvent> tell_end();

  std::shared_ptr<CmImpl> manager_;
  const uint32_t number_;
  message::Fd fd_;
  std::mutex take_mutex_;  // guards what follows, and reading the pipe
  std::deque<message::CmEventRecord> taken_;
  std::mutex mutex_;                   // guards what follows; comes after take_mutex_
  std::map<uint32_t, CmIdImpl*> ids_;  // whose events come here
  std::set<uint32_t> told_;            // of the daemon's end
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
  message::Handle handle() const { return {number_}; }
  const std::shared_ptr<CmImpl>& manager() const { return manager_; }
  Result<void> tell(message::Op op) const { return manager()->tell(op, handle()); }
  /// A call after which what was known of the id may not hold.
  template <class Request>
  Result<void> change(message::Op op, const Request& request) {
    auto changed = manager()->tell(op, request);
    channel()->forget_known(number_);
    learn({});
    return changed;
  }
  Result<void> migrate(std::shared_ptr<CmChannelImpl> to);
  void learn(CmKnown known) {
    const std::scoped_lock lock(mutex_);
    known_ = std::move(known);
  }
  CmKnown known() const {
    const std::scoped_lock lock(mutex_);
    return known_;
  }

 private:
  std::shared_ptr<CmChannelImpl> channel() const {
    const std::scoped_lock lock(mutex_);
    return channel_;
  }

  std::shared_ptr<CmChannelImpl> channel_;
  std::shared_ptr<CmImpl> manager_ = channel_->manager();
  mutable std::mutex mutex_;  // guards channel_ and what follows; comes after the channel's
  CmKnown known_;
  const uint32_t number_;
};

}  // namespace uroce::client
