#include <torch/csrc/distributed/c10d/Work.hpp>

#include <utility>

#include "core/require.h"
#include "lab/distributed/backends.h"

namespace deq::lab::distributed {
namespace {

using c10::ivalue::Future;

/// Runs `exchange`; where it throws, throws what the sentinel says about it.
template <class Exchange>
auto explaining(Sentinel& sentinel, const Exchange& exchange) {
  try {
    return exchange();
  } catch (const Error&) {
    throw;
  } catch (const c10::Error& error) {
    throw Error(sentinel.explain(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    throw Error(sentinel.explain(error.what()));
  }
}

class ExplainedWork : public c10d::Work {
 public:
  ExplainedWork(c10::intrusive_ptr<c10d::Work> inner, std::shared_ptr<Sentinel> sentinel)
      : inner_(std::move(inner)), sentinel_(std::move(sentinel)) {}

  bool isCompleted() override { return inner_->isCompleted(); }
  bool isSuccess() const override { return inner_->isSuccess(); }
  std::exception_ptr exception() const override { return inner_->exception(); }
  std::vector<at::Tensor> result() override { return inner_->result(); }
  void synchronize() override { inner_->synchronize(); }
  void abort() override { inner_->abort(); }

  bool wait(std::chrono::milliseconds timeout) override {
    return explaining(*sentinel_, [&] { return inner_->wait(timeout); });
  }

  c10::intrusive_ptr<Future> getFuture() override {
    const auto future = inner_->getFuture();
    return future->then(
        [sentinel = sentinel_](Future& finished) {
          return explaining(*sentinel, [&] { return finished.value(); });
        },
        future->elementType());
  }

 private:
  c10::intrusive_ptr<c10d::Work> inner_;
  std::shared_ptr<Sentinel> sentinel_;
};

class ExplainedBackend : public c10d::Backend {
 public:
  ExplainedBackend(BackendPtr inner, std::shared_ptr<Sentinel> sentinel)
      : c10d::Backend(inner->getRank(), inner->getSize()),
        inner_(std::move(inner)),
        sentinel_(std::move(sentinel)) {}
  ExplainedBackend(const ExplainedBackend&) = delete;
  ExplainedBackend& operator=(const ExplainedBackend&) = delete;
  /// A backend would wait for the timeout of every exchange with a rank that is gone. It is left to
  /// end with the process instead.
  ~ExplainedBackend() override {
    if (!sentinel_->verdict().empty()) static_cast<void>(inner_.release());
  }

  const std::string getBackendName() const override { return inner_->getBackendName(); }

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    return start([&] { return inner_->allreduce(tensors, options); });
  }

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    return start([&] { return inner_->broadcast(tensors, options); });
  }

 private:
  template <class Exchange>
  c10::intrusive_ptr<c10d::Work> start(const Exchange& exchange) {
    const auto verdict = sentinel_->verdict();
    require(verdict.empty(), "{}", verdict);
    return c10::make_intrusive<ExplainedWork>(explaining(*sentinel_, exchange), sentinel_);
  }

  BackendPtr inner_;
  std::shared_ptr<Sentinel> sentinel_;
};

}  // namespace

BackendPtr explained(BackendPtr inner, std::shared_ptr<Sentinel> sentinel) {
  return c10::make_intrusive<ExplainedBackend>(std::move(inner), std::move(sentinel));
}

}  // namespace deq::lab::distributed
