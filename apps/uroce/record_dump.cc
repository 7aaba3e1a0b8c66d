#include "uroce/record_dump.h"

#include <fmt/format.h>

#include <uroce/version.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <utility>

#include "record/file.h"
#include "record/frames.h"
#include "record/record_text.h"
#include "uroce/pcapng.h"
#include "uroce/table.h"
#include "wire/packet.h"
#include "wire/text.h"

namespace uroce::cli {
namespace {

/// Writes records and their frames one by one.
class Dump {
 public:
  Dump(const Options& options, std::optional<Pcapng>& capture) : options_(options), capture_(capture) {}

  void add(const record::Record& record) {
    now_ = record::time_of(record, now_);
    if (first_ < Nanos(0)) first_ = now_;
    peers_.note(record);
    const auto frames = record::frames_of(record);
    auto described = record::describe(record);
    if (described.text.empty() && !frames.empty()) described.text = fmt::format("{}", frames.size());
    const bool shown = !options_.qp || (described.qpn && *described.qpn == *options_.qp);
    if (shown && !capture_) line(record, 0, record::name_of(record.kind), described.text);
    for (const record::RecordedFrame& frame : frames) add(record, frame);
  }
  void end() const {
    if (options_.json) fmt::print("{}]\n", lines_ ? "" : "[");
  }
  uint64_t packets() const { return packets_; }

 private:
  void add(const record::Record& record, const record::RecordedFrame& frame) {
    ++packets_;
    const auto packet = wire::parse(frame.bytes, wire::Icrc::skip);
    if (options_.qp && !(packet && peers_.concerns(*options_.qp, *packet, frame.in))) return;
    if (capture_) {
      const auto time = static_cast<uint64_t>(now_.count());
      return capture_->frame(time, !frame.in, frame.bytes, frame.whole ? "" : "the payload was not recorded");
    }
    const std::string text = packet ? wire::to_text(*packet) : fmt::format("({} bytes)", frame.bytes.size());
    line(record, packets_, frame.in ? "<" : ">", text);
  }
  void line(const record::Record& record, uint64_t packet, std::string_view kind, const std::string& text) {
    if (options_.json) {
      fmt::print("{}{{\"record\": {}, \"packet\": {}, \"time_ns\": {}, \"kind\": {}, \"text\": {}}}",
                 std::exchange(lines_, true) ? ",\n " : "[", record.number,
                 packet == 0 ? "null" : fmt::format("{}", packet), now_.count(), json_text(kind), json_text(text));
      return;
    }
    const std::string number = packet == 0 ? "" : fmt::format("{}", packet);
    fmt::print("{:8} {:>8} {:12.9f} {} {}\n", record.number, number, static_cast<double>((now_ - first_).count()) / 1e9,
               kind, printable(text));
  }

  const Options& options_;
  std::optional<Pcapng>& capture_;
  record::Peers peers_;
  Nanos now_{0};
  Nanos first_{-1};
  uint64_t packets_ = 0;
  bool lines_ = false;
};

}  // namespace

std::string json_text(std::string_view text) {
  std::string out = printable(text);
  std::ranges::replace_if(out, [](char c) { return c == '"' || c == '\\'; }, '?');
  return '"' + out + '"';
}

Result<void> run_record_dump(const Options& options) {
  const auto file = record::read_file(options.file);
  if (!file) return std::unexpected(file.error());
  std::optional<Pcapng> capture;
  if (!options.pcap.empty()) {
    auto made = Pcapng::create(options.pcap, file->device, fmt::format("uroce {}", kVersion));
    if (!made) return std::unexpected(made.error());
    capture.emplace(std::move(*made));
  }
  Dump dump(options, capture);
  std::optional<std::string> broken;
  try {
    record::Reader in(file->records);
    while (!in.at_end() && (!capture || capture->state())) dump.add(in.take());
    in.check_end();
  } catch (const record::Stop& stop) {
    broken = stop.text;
  }
  dump.end();
  if (capture) {
    if (auto ended = capture->end(dump.packets(), 0); !ended) {
      if (ended.error().code == EPIPE) return {};  // the reader of the pipe has seen enough
      return ended;
    }
  }
  if (broken) return fail(EINVAL, fmt::format("{} has been changed: {}", options.file, printable(*broken)));
  return {};
}

}  // namespace uroce::cli
