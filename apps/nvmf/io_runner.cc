#include "nvmf/io_runner.h"

#include <cerrno>

namespace uroce::nvmf {

using nvme::Status;

void IoRunner::start(IoWork& work) {
  work.op = work.plan.op;
  work.force_unit_access = work.plan.force_unit_access;
  submit(work);
}

bool IoRunner::start_ranges(IoWork& work) {
  if (!ranges_fit({work.data, work.data_bytes}, *work.plan.target)) return false;
  work.op = work.plan.op;
  work.force_unit_access = false;
  work.range = 0;
  return true;
}

bool IoRunner::next_range(IoWork& work) {
  while (work.range < work.plan.ranges) {
    take_range({work.data, work.data_bytes}, work.range++, work.plan);
    if (work.plan.length == 0) continue;
    submit(work);
    return true;
  }
  return false;
}

void IoRunner::submit(IoWork& work) {
  work.offset = work.plan.offset;
  work.length = work.plan.length;
  ++operations_;
  work.plan.target->backend->submit(work, ring_);
}

Status IoRunner::status_of(const IoWork& work, int error) {
  if (error == 0) return Status::success;
  if (error == ENOSPC) return Status::capacity_exceeded;
  return work.op == Io::Op::read ? Status::read_error : Status::write_fault;
}

}  // namespace uroce::nvmf
