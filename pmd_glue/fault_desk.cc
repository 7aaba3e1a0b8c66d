#include "pmd_glue/fault_desk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "pmd_glue/notes.h"

namespace uroce::glue {

namespace {

constexpr auto kAnswerTimeout = std::chrono::seconds(5);
constexpr Nanos kTellInterval = std::chrono::seconds(1);
constexpr std::size_t kLargestFile = std::size_t{1} << 20;

}  // namespace

FaultDesk::~FaultDesk() { tell_all(); }

void FaultDesk::note_added(const faults::Rules& added) const {
  for (const auto& one : added) {
    note(fmt::format("fault rule {} with seed {}: {}", one->number, one->seed, one->rule.text), NoteLevel::info);
  }
}

Result<void> FaultDesk::begin(std::vector<Place> places, std::string_view text, std::string_view source) {
  places_ = std::move(places);
  current_.resize(places_.size());
  auto added = rules_.add(text, source);
  if (!added) return std::unexpected(added.error());
  if (added->empty()) return {};
  note_added(*added);
  for (std::size_t i = 0; i < places_.size(); ++i) {
    current_[i] = places_[i].queue->make_faults(*added, places_[i].device);
    places_[i].queue->set_faults(current_[i].get());
  }
  return {};
}

Result<faults::Rules> FaultDesk::add(std::string_view text, std::string_view source) {
  const std::scoped_lock lock(mutex_);
  auto added = rules_.add(text, source);
  if (!added || added->empty()) return added;
  note_added(*added);
  if (auto done = install(rules_.all()); !done) return std::unexpected(done.error());
  return added;
}

Result<void> FaultDesk::remove(std::optional<uint32_t> number) {
  const std::scoped_lock lock(mutex_);
  tell_all();
  if (!number) {
    rules_.clear();
  } else if (auto removed = rules_.remove(*number); !removed) {
    return removed;
  }
  return install(rules_.all());
}

Result<void> FaultDesk::install(const faults::Rules& rules) {
  std::vector<std::unique_ptr<PortFaults>> next;
  const bool had_rules = std::ranges::any_of(current_, [](const auto& one) { return one != nullptr; });
  if (rules.empty() && !had_rules) return {};
  for (const Place& place : places_) next.push_back(place.queue->make_faults(rules, place.device));
  if (auto done = replace(std::move(next)); !done || !rules.empty()) return done;
  // Without a rule, kept frames go on. Then nothing stands between port and engine any more.
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (auto idle = wait_until(places_[i], [&] { return current_[i]->is_idle(); }); !idle) return idle;
  }
  return replace(std::vector<std::unique_ptr<PortFaults>>(places_.size()));
}

Result<void> FaultDesk::replace(std::vector<std::unique_ptr<PortFaults>> next) {
  for (std::size_t i = 0; i < places_.size(); ++i) places_[i].queue->set_faults(next[i].get());
  Result<void> result;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const auto taken_up = [&] { return places_[i].queue->faults_in_use() == next[i].get(); };
    auto done = wait_until(places_[i], taken_up);
    std::swap(current_[i], next[i]);
    if (done) continue;
    (void)next[i].release();  // the engine may still use them
    result = std::move(done);
  }
  return result;
}

Result<void> FaultDesk::wait_until(const Place& place, const auto& done) const {
  const auto until = std::chrono::steady_clock::now() + kAnswerTimeout;
  while (!done()) {
    if (std::chrono::steady_clock::now() > until) {
      return fail(ETIMEDOUT, fmt::format("fault rules of {} wait: an engine does not answer; is its lcore running?",
                                         place.device));
    }
    place.worker->waker().wake_always();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {};
}

void FaultDesk::tell(Nanos now) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || now < next_told_) return;
  next_told_ = now + kTellInterval;
  tell_all();
}

void FaultDesk::tell_all() {
  for (const auto& one : rules_.all()) {
    Told& told = told_[one->number];
    const Told is{one->hits.load(std::memory_order_relaxed), one->overflow.load(std::memory_order_relaxed)};
    if (is.hits == told.hits && is.overflow == told.overflow) continue;
    note(fmt::format("fault rule {} ({}): {} injected, {} in all{}", one->number, one->rule.text, is.hits - told.hits,
                     is.hits,
                     is.overflow == 0 ? "" : fmt::format("; {} frames lost, because 1024 were kept", is.overflow)),
         NoteLevel::info);
    told = is;
  }
}

Result<std::string> read_fault_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return fail(EINVAL, fmt::format("cannot read fault rules from {}: {}", path, std::strerror(errno)));
  std::string text(kLargestFile + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (file.bad()) return fail(EINVAL, fmt::format("cannot read fault rules from {}; is it a file?", path));
  if (text.size() > kLargestFile) {
    return fail(EINVAL, fmt::format("the fault rules in {} are larger than 1 MiB; shorten the file", path));
  }
  return text;
}

}  // namespace uroce::glue
