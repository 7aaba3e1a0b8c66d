// The program that tests/bench/instructions runs under callgrind. Each row is one kind of message; its traffic runs for
// two lengths, whose difference is the cost of messages alone.
//
// Usage: counted_traffic --list, counted_traffic --compiler, or counted_traffic ROW...
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tests/bench/counted_rows.h"
#include "tests/bench/message_pair.h"

namespace {

using namespace uroce;
using namespace uroce::bench;

struct Row {
  std::string name;
  Traffic traffic;
  uint64_t messages;  ///< of the shorter run; the longer one has twice as many
};

std::vector<Row> all_rows() {
  struct Message {
    const char* name;
    Operation operation;
    uint32_t bytes;
    uint32_t batch;
    uint64_t messages;
    bool shared = false;
  };
  constexpr Message kMessages[] = {
      {"write-8", Operation::write, 8, 32, 320},         {"write-8-alone", Operation::write, 8, 1, 320},
      {"write-4096", Operation::write, 4096, 32, 320},   {"write-65536", Operation::write, 65536, 8, 32},
      {"read-8", Operation::read, 8, 32, 320},           {"read-4096", Operation::read, 4096, 32, 320},
      {"read-65536", Operation::read, 65536, 8, 32},     {"send-8", Operation::send, 8, 32, 320},
      {"send-8-srq", Operation::send, 8, 32, 320, true}, {"send-65536", Operation::send, 65536, 8, 32},
      {"atomic", Operation::atomic, 8, 32, 320},         {"ud-send-8", Operation::ud_send, 8, 32, 320},
  };
  constexpr std::string_view kRecorded[] = {"write-8", "write-65536", "send-8"};
  std::vector<Row> rows;
  for (const Message& m : kMessages) {
    for (const bool ready : {false, true}) {
      if (ready && m.operation == Operation::ud_send) continue;  // a datagram is never recovered or paced
      for (const uint32_t queue_pairs : {1u, 16u, 1000u}) {
        rows.push_back({fmt::format("{} {} {}", m.name, ready ? "ready" : "plain", queue_pairs),
                        {.operation = m.operation,
                         .bytes = m.bytes,
                         .queue_pairs = queue_pairs,
                         .batch = m.batch,
                         .retransmission = ready ? Retransmission::selective : Retransmission::go_back_n,
                         .congestion = ready ? CongestionAlgorithm::dcqcn : CongestionAlgorithm::none,
                         .shared = m.shared},
                        m.messages});
      }
    }
  }
  for (const Message& m : kMessages) {
    rows.push_back({fmt::format("{} local 1", m.name),
                    {.operation = m.operation, .bytes = m.bytes, .batch = m.batch, .local = true, .shared = m.shared},
                    m.messages});
  }
  for (const Message& m : kMessages) {
    rows.push_back(
        {fmt::format("{} outlivable 1", m.name),
         {.operation = m.operation, .bytes = m.bytes, .batch = m.batch, .shared = m.shared, .outlivable = true},
         m.messages});
  }
  for (const Message& m : kMessages) {
    if (std::ranges::find(kRecorded, std::string_view(m.name)) == std::end(kRecorded)) continue;
    rows.push_back(
        {fmt::format("{} recorded 1", m.name),
         {.operation = m.operation, .bytes = m.bytes, .batch = m.batch, .shared = m.shared, .recorded = true},
         m.messages});
  }
  rows.push_back({"empty-poll", {.operation = Operation::nothing}, 320});
  return rows;
}

}  // namespace

/// callgrind counts inside this function alone, and writes a file at its end.
extern "C" [[gnu::noinline]] void uroce_counted_run(MessagePair& pair, uint64_t messages);
void uroce_counted_run(MessagePair& pair, uint64_t messages) {
  pair.is_idle() ? pair.poll_in_vain(messages) : pair.run(messages);
}

namespace {

void count(const Row& row) {
  MessagePair pair(row.traffic);
  // Every queue pair has sent, discovery of the peers has ended, and then every round-trip time was measured.
  const uint64_t all = row.traffic.queue_pairs + row.traffic.batch;
  const uint64_t whole_batches = all / row.traffic.batch * row.traffic.batch;
  do {
    pair.run(whole_batches);
  } while (!pair.settled());
  for (int i = 0; i < 2; ++i) pair.run(whole_batches);
  uroce_counted_run(pair, row.messages);
  uroce_counted_run(pair, 2 * row.messages);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  if (tell_compiler(words)) return 0;
  for (const Row& row : all_rows()) {
    if (tell_row(words, row.name, row.messages)) continue;
    for (const std::string_view word : words) {
      if (word == row.name) count(row);
    }
  }
  return 0;
}
