// Events of the connection manager. A channel's pipe has one byte per event; one call takes many events.
#include <algorithm>

#include <poll.h>
#include <unistd.h>

#include "base/no_cancel.h"
#include "client/cm_impl.h"
#include "client/queue_pair.h"

namespace uroce::client {

namespace {

bool is_request(const message::CmEventRecord& record) { return record.event.type == CmEventType::connect_request; }

}  // namespace

CmChannelImpl::~CmChannelImpl() {
  if (!manager_->mine()) return;
  (void)manager_->calls().destroy_channel(number_);
  // The ids of undelivered connect requests have no owner: destroy them.
  for (const auto& record : taken_) {
    if (is_request(record)) (void)manager_->calls().destroy_id(record.event.id);
  }
}

void CmChannelImpl::add(uint32_t id, CmIdImpl& object) {
  const std::scoped_lock lock(mutex_);
  ids_[id] = &object;
}

void CmChannelImpl::remove(uint32_t id) {
  const std::scoped_lock lock(mutex_);
  ids_.erase(id);
}

std::vector<message::CmEventRecord> CmChannelImpl::extract(uint32_t id) {
  std::vector<message::CmEventRecord> out;
  std::erase_if(taken_, [&](message::CmEventRecord& record) {
    const bool its = record.event.id == id || (is_request(record) && record.event.listener == id);
    if (its) out.push_back(std::move(record));
    return its;
  });
  return out;
}

void CmChannelImpl::drop_events(uint32_t id) {
  std::vector<message::CmEventRecord> gone;
  {
    const std::scoped_lock lock(take_mutex_);
    gone = extract(id);
    for (std::size_t i = 0; i < gone.size(); ++i) (void)take_token();
  }
  // A listener's undelivered connect requests go with it.
  for (const auto& record : gone) {
    if (is_request(record)) (void)manager_->calls().destroy_id(record.event.id);
  }
}

void CmChannelImpl::forget_known(uint32_t id) {
  const std::scoped_lock lock(take_mutex_);
  for (auto& record : taken_) {
    if (record.event.id != id) continue;
    record.has_info = false;
    record.steps.clear();
    record.welcome = {};
  }
}

Result<void> CmChannelImpl::migrate(uint32_t id, CmChannelImpl& to) {
  if (&to == this) return manager_->calls().migrate(id, to.number(), 0);
  const std::scoped_lock lock(take_mutex_, to.take_mutex_);
  std::vector<message::CmEventRecord> moved = extract(id);
  auto done = manager_->calls().migrate(id, to.number(), static_cast<uint32_t>(moved.size()));
  for (auto& record : moved) {
    if (done) (void)take_token();
    // The id of a connect request is on its listener's channel.
    if (done && is_request(record)) (void)manager_->calls().migrate(record.event.id, to.number(), 0);
    (done ? to : *this).taken_.push_back(std::move(record));
  }
  return done;
}

// The application may have made the descriptor blocking: poll first, and let one thread at a time read.
CmChannelImpl::Token CmChannelImpl::take_token() {
  const NoCancel guard;
  pollfd waiting{.fd = fd_.get(), .events = POLLIN, .revents = 0};
  char token = 0;
  if (poll(&waiting, 1, 0) != 1) return Token::none;
  return read(fd_.get(), &token, 1) == 1 ? Token::there : Token::ended;
}

std::optional<CmEvent> CmChannelImpl::take() {
  // A program that polls would pay more for the lock and the system call than for a pass over its engines.
  const auto changes = [this] { return changes_ != nullptr ? changes_->load(std::memory_order_acquire) : 0; };
  const auto known_empty = [this](uint64_t now) {
    return changes_ != nullptr && now == empty_at_.load(std::memory_order_relaxed);
  };
  if (known_empty(changes())) return std::nullopt;
  const std::scoped_lock lock(take_mutex_);
  for (;;) {
    const uint64_t before = changes();
    if (known_empty(before)) return std::nullopt;
    const Token token = take_token();
    if (token == Token::none) {
      empty_at_.store(before, std::memory_order_relaxed);
      return std::nullopt;
    }
    if (token == Token::ended) return report_end();
    if (taken_.empty()) {
      auto events = manager_->calls().take_events(number_, message::kMaxEventsTaken);
      if (!events) return report_end();
      std::ranges::move(*events, std::back_inserter(taken_));
    }
    // Empty when the event's id was destroyed after the byte was written.
    if (taken_.empty()) continue;
    message::CmEventRecord next = std::move(taken_.front());
    taken_.pop_front();
    return deliver(std::move(next));
  }
}

CmEvent CmChannelImpl::deliver(message::CmEventRecord record) {
  CmKnown known{.steps = std::move(record.steps), .welcome = record.welcome};
  if (record.has_info) known.info = std::move(record.known.info);
  if (is_request(record)) {
    manager_->add_request(record.event.id, {weak_from_this(), std::move(known)});
  } else {
    const std::scoped_lock lock(mutex_);
    const auto id = ids_.find(record.event.id);
    if (id != ids_.end()) id->second->on_event(record.event.type, std::move(known));
  }
  return std::move(record.event);
}

std::optional<CmEvent> CmChannelImpl::report_end() {
  const std::scoped_lock lock(mutex_);
  for (const auto& [id, object] : ids_) {
    if (reported_.insert(id).second) return CmEvent{.type = CmEventType::device_removal, .id = id};
  }
  return std::nullopt;
}

std::optional<CmEvent> CmChannelImpl::wait(std::chrono::nanoseconds timeout) {
  using Clock = std::chrono::steady_clock;
  const bool for_ever = timeout == std::chrono::nanoseconds::max();
  const auto start = Clock::now();
  for (;;) {
    if (auto event = take()) return event;
    const auto left = for_ever ? timeout : timeout - (Clock::now() - start);
    const message::Wake woken = manager_->sleep(fd_.get(), left);
    if (woken == message::Wake::lost) return take();
    if (woken != message::Wake::readable) return std::nullopt;
  }
}

CmIdImpl::~CmIdImpl() {
  channel_->remove(number_);
  if (!manager_->mine()) return;
  // The next program may wait for a port that is known. Otherwise a destroyed id makes no difference to anybody.
  if (take_welcome(message::CmCall::destroy) && !known_port_) {
    (void)manager_->post_destroy_id(number_);
  } else {
    (void)manager_->calls().destroy_id(number_);
  }
  channel_->drop_events(number_);
}

Result<void> CmIdImpl::resolve_route() {
  if (take_welcome(message::CmCall::resolve_route)) return manager_->post_resolve_route(number_);
  return manager_->calls().resolve_route(number_);
}

Result<void> CmIdImpl::connect(const CmParam& param, const std::shared_ptr<QpImpl>& qp) {
  {
    const std::scoped_lock lock(mutex_);
    connecting_ = qp;  // before the event can come
  }
  auto asked = manager_->connect(number_, param, *qp, take_welcome(message::CmCall::connect));
  forget();
  return asked;
}

Result<void> CmIdImpl::accept(const CmParam& param, QpImpl& qp) {
  auto accepted = manager_->accept(number_, param, qp, take_welcome(message::CmCall::accept));
  if (accepted) qp.note(QpState::rts);
  forget();
  return accepted;
}

Result<void> CmIdImpl::disconnect(QpImpl& qp) {
  auto parted = manager_->disconnect(number_, qp, take_welcome(message::CmCall::disconnect));
  if (parted) qp.note(QpState::error);
  return parted;
}

void CmIdImpl::on_event(CmEventType type, CmKnown known) {
  const std::scoped_lock lock(mutex_);
  if (!known.info) {
    known.info = std::move(known_.info);
    known.steps = std::move(known_.steps);
  }
  known_ = std::move(known);
  if (type != CmEventType::established && type != CmEventType::connect_error) return;
  if (const auto qp = std::exchange(connecting_, {}).lock(); qp != nullptr) {
    qp->note(type == CmEventType::established ? QpState::rts : QpState::error);
  }
}

Result<void> CmIdImpl::migrate(std::shared_ptr<CmChannelImpl> to) {
  const auto from = channel();
  auto moved = from->migrate(number_, *to);
  if (!moved) return moved;
  from->remove(number_);
  to->add(number_, *this);
  const std::scoped_lock lock(mutex_);
  channel_ = std::move(to);
  return {};
}

}  // namespace uroce::client
