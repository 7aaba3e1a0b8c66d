#include "net/table_reading.h"

namespace uroce::net {

void TableReading::begin(Nanos now) {
  if (asking_ != Asking::nothing) {
    again_ = true;  // the kernel reads out one table at a time
    return;
  }
  again_ = false;
  ++number_;
  ask(Asking::addresses, now);
}

void TableReading::ask(Asking what, Nanos now) {
  asking_ = what;
  sequence_ = requests_.next_number();
  interrupted_ = false;
  until_ = now + kKernelAnswerTime;
  const auto table = what == Asking::addresses ? KernelTable::addresses : KernelTable::neighbours;
  requests_.send(ask_table(table, interface_.index, sequence_));
}

void TableReading::take(const KernelMessage& message, Nanos now) {
  until_ = now + kKernelAnswerTime;
  interrupted_ = interrupted_ || message.interrupted;
}

bool TableReading::end_table(Nanos now) {
  if (!interrupted_) return true;
  ask(asking_, now);
  return false;
}

void TableReading::go_on(Nanos now) {
  if (asking_ == Asking::addresses) return ask(Asking::neighbours, now);
  abandon();
  if (again_) begin(now);
}

void TableReading::abandon() {
  asking_ = Asking::nothing;
  until_ = kNever;
}

}  // namespace uroce::net
