/* Derivatives of a function: checked, recorded once and replayed, and as linear operators.
 *
 *   cc derivatives.c $(pkg-config --cflags --libs gradus) && ./a.out */
#include <gradus/gradus.h>

#include <stdio.h>

/* The log of a sum of exponentials, softly the largest element, with a penalty on the spread of its inputs. */
static gd_tensor *soft_maximum(void *user, gd_tensor *const *in, int count)
{
    (void)user, (void)count;
    return gd_add(gd_logsumexp(in[0], "0", false), gd_variance(in[0], "0", 0, false));
}

/* Running products of the inputs' sums, a function with several outputs. */
static gd_tensor *running(void *user, gd_tensor *const *in, int count)
{
    (void)user, (void)count;
    return gd_square(gd_cumsum(in[0], "0"));
}

/* Squares of differences of adjacent inputs: the Hessian has three diagonals. */
static gd_tensor *roughness(void *user, gd_tensor *const *in, int count)
{
    (void)user, (void)count;
    int64_t n = gd_numel(in[0]);
    return gd_sum(gd_square(gd_sub(gd_slice(in[0], "0", 1, n, 1), gd_slice(in[0], "0", 0, n - 1, 1))), NULL,
                  false);
}

static void print(const char *what, gd_tensor *t)
{
    printf("%s:", what);
    gd_tensor *flat = gd_reshape(t, 1, (int64_t[]){gd_numel(t)});
    for (int64_t i = 0; i < gd_numel(flat); i++) printf(" %.4f", gd_at(flat, &i));
    printf("\n");
}

static gd_status replay(gd_ctx *ctx, gd_tensor *x, gd_tensor *v)
{
    gd_traced *f = gd_trace(ctx, soft_maximum, NULL, NULL), *g = gd_trace(ctx, running, NULL, NULL);
    gd_tensor *value = NULL, *grad = NULL, *product = NULL, *jacobian = NULL;
    gd_status status = GD_OK;
    for (int i = 0; i < 5 && !status; i++) { /* from the fourth call on recordings are replayed */
        status = gd_traced_gradient(f, &x, 1, &value, &grad);
        if (!status) status = gd_traced_hvp(f, &x, 1, &v, &product);
        if (!status) status = gd_traced_jacobian(g, &x, 1, &jacobian);
    }
    if (!status) {
        print("value", gd_traced_value(f, &x, 1));
        print("gradient", grad);
        print("Hessian times v", product);
        print("Jacobian", jacobian);
    }
    gd_traced_free(f), gd_traced_free(g);
    return status;
}

/* The entries of a Hessian that can be other than zero, and all of it. */
static gd_status structure(gd_ctx *ctx, gd_tensor *x)
{
    gd_traced *f = gd_trace(ctx, roughness, NULL, NULL);
    gd_tensor *rows = NULL, *columns = NULL, *hessian = gd_traced_hessian(f, &x, 1);
    gd_status status = gd_traced_sparsity(f, GD_TRACED_HESSIAN, &x, 1, &rows, &columns);
    if (!status) {
        print("rows", rows);
        print("columns", columns);
        print("Hessian", hessian);
    }
    gd_traced_free(f);
    return status;
}

/* J^T J v by two products, without the matrix; `scaled` and `composed` take over the operators they are given. */
static gd_status operators(gd_tensor *x, gd_tensor *v)
{
    gd_tensor *j = NULL;
    gd_status status = gd_jacobian(running, NULL, &x, 1, &j);
    if (status) return status;
    gd_linop *half = gd_linop_scaled(gd_linop_dense(j), 0.5);
    print("J^T J v / 4", gd_linop_rmatvec(half, gd_linop_matvec(half, v)));
    gd_linop *both = gd_linop_composed(gd_linop_dense(gd_transpose(j, 0, 1)), gd_linop_dense(j));
    print("J^T J v", gd_linop_matvec(both, v));
    gd_linop_release(half), gd_linop_release(both);
    print("the same", gd_einsum("mi,mj,j->i", (gd_tensor *[]){j, j, v}, 3));
    return GD_OK;
}

int main(void)
{
    gd_ctx *ctx = gd_ctx_new(NULL);
    gd_scope_begin(ctx);
    gd_tensor *x = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){3}, (double[]){0.5, -1, 2});
    gd_tensor *v = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){3}, (double[]){1, 0, -1});
    gd_gradcheck_options check = gd_gradcheck_defaults();
    check.order = 2;
    gd_status status = gd_gradcheck(soft_maximum, NULL, &x, 1, &check);
    if (!status) printf("both derivatives agree with differences\n");
    if (!status) status = replay(ctx, x, v);
    if (!status) status = structure(ctx, x);
    if (!status) status = operators(x, v);
    gd_scope_end(ctx);
    if (!status) status = gd_error(ctx);
    if (status) fprintf(stderr, "derivatives: %s\n", gd_error_text(ctx));
    gd_ctx_free(ctx);
    return status != GD_OK;
}
