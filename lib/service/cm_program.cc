#include "service/cm_program.h"

namespace uroce::service {

message::CmPass CmPrograms::lend(const std::shared_ptr<CmProgram>& program) {
  const std::scoped_lock lock(mutex_);
  const auto [at, added] = passes_.try_emplace(program.get());
  if (added) {
    at->second = {numbers_.next(), numbers_.next()};
    programs_[at->second] = program;
  }
  return {at->second};
}

std::shared_ptr<CmProgram> CmPrograms::find(const message::CmPass& pass, uint32_t uid) const {
  const std::scoped_lock lock(mutex_);
  const auto found = programs_.find(pass.words);
  if (found == programs_.end()) return nullptr;
  auto program = found->second.lock();
  return program != nullptr && program->uid() == uid ? program : nullptr;
}

void CmPrograms::remove(const CmProgram& program) {
  const std::scoped_lock lock(mutex_);
  const auto found = passes_.find(&program);
  if (found == passes_.end()) return;
  programs_.erase(found->second);
  passes_.erase(found);
}

}  // namespace uroce::service
