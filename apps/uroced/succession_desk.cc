#include "uroced/succession_desk.h"

#include <cerrno>
#include <utility>

namespace uroce::daemon {

namespace {
Error ending() {
  return {ECANCELED, "the running daemon ends for another reason; start the new one without --replace"};
}
}  // namespace

Result<std::vector<message::DeviceFacts>> SuccessionDesk::facts() {
  const std::scoped_lock lock(mutex_);
  if (closed_) return std::unexpected(ending());
  return daemon_.facts();
}

message::Belongings SuccessionDesk::lend() {
  const std::scoped_lock lock(mutex_);
  return closed_ ? message::Belongings() : daemon_.lend();
}

message::RestartRow SuccessionDesk::restart_row() {
  const std::scoped_lock lock(mutex_);
  return closed_ ? message::RestartRow() : daemon_.restart_row();
}

Error SuccessionDesk::hand_over(message::SuccessionLink& successor, int32_t pid,
                                const service::EstateVersions& versions) {
  std::unique_lock lock(mutex_);
  if (closed_) return ending();
  answer_.reset();
  request_ = Request{.link = &successor, .pid = pid, .versions = versions};
  signals_.ring();
  answered_.wait(lock, [this] { return answer_.has_value(); });
  request_.reset();
  return *std::exchange(answer_, std::nullopt);
}

std::optional<SuccessionDesk::Request> SuccessionDesk::request() {
  const std::scoped_lock lock(mutex_);
  return answer_ ? std::nullopt : request_;
}

void SuccessionDesk::refuse(Error why) {
  const std::scoped_lock lock(mutex_);
  answer_ = std::move(why);
  answered_.notify_all();
}

void SuccessionDesk::close() {
  const std::scoped_lock lock(mutex_);
  closed_ = true;
  answer_ = ending();
  answered_.notify_all();
}

}  // namespace uroce::daemon
