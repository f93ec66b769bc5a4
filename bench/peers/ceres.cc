// Ceres: method is lbfgs or bfgs of its line search; "nist" and the kind "fit" go to its trust region.
#include "decay.h"
#include "solve.h"

#include <ceres/ceres.h>
#include <ceres/version.h>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

namespace {

class Function : public ceres::FirstOrderFunction {
public:
    explicit Function(problem *p) : p_(p), g_(problem_size(p)) {}
    bool Evaluate(const double *x, double *loss, double *g) const override
    {
        *loss = problem_evaluate(p_, x, g ? g : g_.data());
        return std::isfinite(*loss) && !problem_over(p_);
    }
    int NumParameters() const override { return problem_size(p_); }

private:
    problem *p_;
    mutable std::vector<double> g_;
};

double minimize(problem *p, const char *method, double *x)
{
    ceres::GradientProblemSolver::Options options;
    ceres::GradientProblemSolver::Summary summary;
    options.line_search_direction_type = strcmp(method, "bfgs") ? ceres::LBFGS : ceres::BFGS;
    options.max_lbfgs_rank = 10;
    options.max_num_iterations = 20000;
    options.gradient_tolerance = solve_tolerance(p);
    options.function_tolerance = 1e-30;
    options.parameter_tolerance = 1e-30;
    options.logging_type = ceres::SILENT;
    ceres::GradientProblem function(new Function(p));
    ceres::Solve(options, function, x, &summary);
    return summary.final_cost;
}

class Residuals : public ceres::CostFunction {
public:
    explicit Residuals(problem *p) : p_(p)
    {
        set_num_residuals(problem_rows(p));
        mutable_parameter_block_sizes()->push_back(problem_size(p));
    }
    bool Evaluate(double const *const *x, double *r, double **j) const override
    {
        problem_residuals(p_, x[0], r, j ? j[0] : nullptr);
        for (int i = 0; i < problem_rows(p_); i++)
            if (!std::isfinite(r[i])) return false;
        return true;
    }

private:
    problem *p_;
};

double least_squares(ceres::CostFunction *cost, double *x)
{
    ceres::Problem fit;
    ceres::Solver::Options options;
    ceres::Solver::Summary summary;
    fit.AddResidualBlock(cost, nullptr, x);
    options.linear_solver_type = ceres::DENSE_QR;
    options.max_num_iterations = 1000;
    options.num_threads = peer_threads();
    options.function_tolerance = 1e-16;
    options.gradient_tolerance = 1e-16;
    options.parameter_tolerance = 1e-12;
    options.logging_type = ceres::SILENT;
    ceres::Solve(options, &fit, &summary);
    return 2 * summary.final_cost;
}

double solve(problem *p, const char *method, double *x)
{
    return problem_rows(p) ? least_squares(new Residuals(p), x) : minimize(p, method, x);
}

// One block a thousand rows, so that its threads have something to share.
class Piece : public ceres::CostFunction {
public:
    Piece(const decay_table *t, long first, long rows) : piece_(*t)
    {
        piece_.t += first;
        piece_.y += first;
        piece_.rows = rows;
        set_num_residuals(static_cast<int>(rows));
        mutable_parameter_block_sizes()->push_back(DECAY_PARAMS);
    }
    bool Evaluate(double const *const *x, double *r, double **j) const override
    {
        decay_residuals(&piece_, x[0], r, j ? j[0] : nullptr);
        return true;
    }

private:
    decay_table piece_;
};

void *open_fit() { return decay_open(static_cast<long>(peer_number("rows", 1000))); }

void run_fit(void *job)
{
    auto *t = static_cast<decay_table *>(job);
    ceres::Problem fit;
    ceres::Solver::Options options;
    ceres::Solver::Summary summary;
    memcpy(t->p, decay_start, sizeof t->p);
    for (long first = 0; first < t->rows; first += 1000)
        fit.AddResidualBlock(new Piece(t, first, std::min(1000L, t->rows - first)), nullptr, t->p);
    options.linear_solver_type = ceres::DENSE_NORMAL_CHOLESKY;
    options.num_threads = peer_threads();
    options.function_tolerance = 1e-15;
    options.parameter_tolerance = 1e-12;
    options.gradient_tolerance = 1e-16;
    options.logging_type = ceres::SILENT;
    ceres::Solve(options, &fit, &summary);
}

void check_fit(void *job, peer_result *out) { out->check = static_cast<decay_table *>(job)->p[1]; }

const peer_kind more[] = {{"fit", open_fit, run_fit, check_fit, decay_close}, {}};

} // namespace

int main() { return solve_main(CERES_VERSION_STRING, solve, more); }
