// The bundle adjustment of bundle.h by Ceres, whose solver it is measured against.
#include "bundle.h"

#include <ceres/ceres.h>

namespace {

class Seen : public ceres::SizedCostFunction<2, BUNDLE_CAMERA, BUNDLE_POINT> {
public:
    explicit Seen(const double *at) : at_(at) {}
    bool Evaluate(double const *const *x, double *r, double **j) const override
    {
        double c[2 * BUNDLE_CAMERA], p[2 * BUNDLE_POINT];
        const bool slopes = j && (j[0] || j[1]);
        bench_bundle_seen(x[0], x[1], at_, r, slopes ? (j[0] ? j[0] : c) : nullptr,
                          slopes ? (j[1] ? j[1] : p) : nullptr);
        return true;
    }

private:
    const double *at_;
};

class Prior : public ceres::SizedCostFunction<BUNDLE_CAMERA, BUNDLE_CAMERA> {
public:
    explicit Prior(const double *at) : at_(at) {}
    bool Evaluate(double const *const *x, double *r, double **j) const override
    {
        for (int k = 0; k < BUNDLE_CAMERA; k++) {
            r[k] = bench_bundle_prior(k) * (x[0][k] - at_[k]);
            for (int i = 0; i < BUNDLE_CAMERA && j && j[0]; i++)
                j[0][k * BUNDLE_CAMERA + i] = i == k ? bench_bundle_prior(k) : 0;
        }
        return true;
    }

private:
    const double *at_;
};

} // namespace

double bench_bundle_ceres(const bundle *b, double tolerance, double *x, double *cost, int *steps)
{
    ceres::Problem problem;
    ceres::Solver::Options options;
    ceres::Solver::Summary summary;
    double *points = x + b->cameras * BUNDLE_CAMERA;
    for (int64_t i = 0; i < b->seen; i++)
        problem.AddResidualBlock(new Seen(b->at + 2 * i), nullptr, x + b->camera[i] * BUNDLE_CAMERA,
                                 points + b->point[i] * BUNDLE_POINT);
    for (int64_t i = 0; i < b->cameras; i++)
        problem.AddResidualBlock(new Prior(b->start + i * BUNDLE_CAMERA), nullptr, x + i * BUNDLE_CAMERA);
    options.linear_solver_type = ceres::SPARSE_SCHUR;
    options.num_threads = 1;
    options.max_num_iterations = 200;
    options.function_tolerance = tolerance;
    options.gradient_tolerance = 1e-30;
    options.parameter_tolerance = 1e-30;
    options.logging_type = ceres::SILENT;
    ceres::Solve(options, &problem, &summary);
    *cost = 2 * summary.final_cost;
    *steps = static_cast<int>(summary.iterations.size());
    return summary.total_time_in_seconds;
}
