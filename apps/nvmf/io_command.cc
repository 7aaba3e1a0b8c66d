#include "nvmf/io_command.h"

#include <cstring>

#include "nvmf/sizes.h"

namespace uroce::nvmf {

using nvme::Status;

namespace {

bool fits(uint64_t first, uint64_t count, const Namespace& target) {
  const uint64_t blocks = target.blocks();
  return first <= blocks && count <= blocks - first;
}

nvme::DatasetRange range_at(std::span<const std::byte> data, std::size_t index) {
  nvme::DatasetRange range;
  std::memcpy(&range, data.data() + index * sizeof range, sizeof range);
  return range;
}

std::expected<IoPlan, Status> plan_blocks(const nvme::Command& command, IoPlan plan) {
  const uint64_t first = uint64_t{command.cdw11} << 32 | command.cdw10;
  const uint64_t count = (command.cdw12 & 0xffff) + uint64_t{1};
  plan.length = count << plan.target->block_shift;
  if (plan.op != Io::Op::write_zeroes) {
    if (plan.length > kTransferBytes) return std::unexpected(Status::invalid_field);
    plan.data_bytes = static_cast<uint32_t>(plan.length);
  }
  if (!fits(first, count, *plan.target)) return std::unexpected(Status::lba_out_of_range);
  plan.offset = first << plan.target->block_shift;
  plan.force_unit_access = (command.cdw12 & nvme::kForceUnitAccess) != 0;
  return plan;
}

}  // namespace

std::expected<IoPlan, Status> plan_io(const nvme::Command& command, const Subsystem& subsystem) {
  IoPlan plan{.target = subsystem.find(command.nsid)};
  if (command.opcode == nvme::kFlush && command.nsid == nvme::kAllNamespaces && subsystem.namespaces.size() == 1) {
    plan.target = subsystem.find(1);
  }
  if (plan.target == nullptr) return std::unexpected(Status::invalid_namespace);
  switch (command.opcode) {
    case nvme::kFlush: return plan;
    case nvme::kRead: plan.op = Io::Op::read; return plan_blocks(command, plan);
    case nvme::kWrite: plan.op = Io::Op::write; return plan_blocks(command, plan);
    case nvme::kWriteZeroes: plan.op = Io::Op::write_zeroes; return plan_blocks(command, plan);
    case nvme::kDatasetManagement:
      plan.op = Io::Op::deallocate;
      plan.data_bytes = static_cast<uint32_t>(((command.cdw10 & 0xff) + 1) * sizeof(nvme::DatasetRange));
      // Other attributes are hints about use, and change nothing.
      plan.ranges = (command.cdw11 & nvme::kDeallocate) != 0 ? (command.cdw10 & 0xff) + 1 : 0;
      return plan;
    default: return std::unexpected(Status::invalid_opcode);
  }
}

bool ranges_fit(std::span<const std::byte> data, const Namespace& target) {
  for (std::size_t i = 0; (i + 1) * sizeof(nvme::DatasetRange) <= data.size(); ++i) {
    const auto range = range_at(data, i);
    if (!fits(range.first_block, range.blocks, target)) return false;
  }
  return true;
}

void take_range(std::span<const std::byte> data, uint32_t index, IoPlan& plan) {
  const auto range = range_at(data, index);
  plan.offset = range.first_block << plan.target->block_shift;
  plan.length = uint64_t{range.blocks} << plan.target->block_shift;
}

}  // namespace uroce::nvmf
