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
constexpr Nanos kTryAgain = std::chrono::milliseconds(20);
constexpr Nanos kTellInterval = std::chrono::seconds(1);
constexpr std::size_t kLargestFile = std::size_t{1} << 20;

}  // namespace

FaultDesk::~FaultDesk() { tell_all(); }

void FaultDesk::note_added(const faults::Rules& added) const {
  for (const auto& one : added) {
    note(fmt::format("fault rule {} with seed {}: {}", one->number, one->seed, one->rule.text), NoteLevel::info);
  }
}

Result<void> FaultDesk::begin(std::vector<Place> places, std::string_view text, std::string_view source,
                              std::function<void()> wake) {
  wake_ = std::move(wake);
  places_ = std::move(places);
  current_.resize(places_.size());
  for (const Place& place : places_) {
    qps_.push_back(std::make_unique<FaultedQps>(*place.device, place.queue->engine()));
    events_.add_place({place.device, place.port});
    completions_.add(place.device);
  }
  auto added = rules_.add(text, source, clock_.now());
  if (!added) return std::unexpected(added.error());
  if (added->empty()) return {};
  note_added(*added);
  count_call_rules();
  events_.add(*added);
  if (auto done = completions_.set(*added); !done) return done;
  const faults::Rules of_frames = faults::of(faults::Subject::frames, *added);
  if (of_frames.empty()) return {};
  current_ = made_for(of_frames);
  for (std::size_t i = 0; i < places_.size(); ++i) places_[i].queue->set_faults(current_[i].get());
  return {};
}

std::vector<std::unique_ptr<PortFaults>> FaultDesk::made_for(const faults::Rules& rules) const {
  std::vector<std::unique_ptr<PortFaults>> made;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    made.push_back(places_[i].queue->make_faults(rules, places_[i].device->config().name, *qps_[i]));
  }
  return made;
}

std::optional<faults::CallFate> FaultDesk::fate_of(const faults::MadeCall& call) const {
  if (!has_call_rules_.load(std::memory_order_relaxed)) return std::nullopt;
  return faults::fate_of(rules_.all(), call, clock_.now());
}

Result<faults::Rules> FaultDesk::add(std::string_view text, std::string_view source) {
  const std::scoped_lock lock(mutex_);
  auto added = rules_.add(text, source, clock_.now());
  if (!added || added->empty()) return added;
  note_added(*added);
  count_call_rules();
  if (auto done = install(rules_.all()); !done) return std::unexpected(done.error());
  events_.add(*added);
  (void)events_.take_turn(clock_.now());
  wake_();
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
  count_call_rules();
  events_.keep(rules_.all());
  return install(rules_.all());
}

void FaultDesk::count_call_rules() {
  has_call_rules_.store(!faults::of(faults::Subject::calls, rules_.all()).empty(), std::memory_order_relaxed);
}

Result<void> FaultDesk::install(const faults::Rules& all) {
  auto done = install_for_frames(faults::of(faults::Subject::frames, all));
  if (auto held = completions_.set(all); !held) return held;
  return done;
}

Result<void> FaultDesk::install_for_frames(const faults::Rules& rules) {
  const bool had_rules = std::ranges::any_of(current_, [](const auto& one) { return one != nullptr; });
  if (rules.empty() && !had_rules) return {};
  if (auto done = replace(made_for(rules)); !done || !rules.empty()) return done;
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
                                         place.device->config().name));
    }
    place.worker->waker().wake_always();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {};
}

Nanos FaultDesk::take_turn(Nanos now) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return now + kTryAgain;
  if (now >= next_told_) {
    next_told_ = now + kTellInterval;
    tell_all();
  }
  return std::min(events_.take_turn(now), completions_.take_turn(now));
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
