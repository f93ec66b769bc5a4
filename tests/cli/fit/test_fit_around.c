/* gradus fit before and after: where it starts; long tables, several tables, archives; residuals, predictions, intervals, pictures. */
#include "table/table_load.h"
#include "file/zip.h"
#include "cli/fit_program.h"
#include "support/corpus.h"

#include "gradus/file.h"

/* ---- after the fit ---- */

/* Cell of a line of a table of numbers, both from 0; the first line is the names. */
static double cell(const char *text, int line, int column)
{
    for (; line > 0; line--) text = strchr(text, '\n') + 1;
    for (; column > 0; column--) text = strchr(text, ',') + 1;
    return strtod(text, NULL);
}

/* Two lines with one slope: that of the sums about the means of each, and a level for each. */
static void several_tables_share_parameters_and_have_their_own(void **state)
{
    (void)state;
    static const double y[2][4] = {{1, 2.2, 2.9, 4.1}, {5.2, 5.9, 7.1, 8}};
    double sxy = 0, mean[2] = {0};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 4; i++) mean[k] += y[k][i] / 4, sxy += (i - 1.5) * y[k][i];
    double slope = sxy / 10;
    put("one.csv", "t [s],S [mM]\n0,1\n1,2.2\n2,2.9\n3,4.1\n");
    put("two.csv", "S [mM],t [s]\n5.2,0\n5.9,1\n7.1,2\n8,3\n");
    put("both.csv", "t,S,which\n0,1,0\n1,2.2,0\n2,2.9,0\n3,4.1,0\n0,5.2,1\n1,5.9,1\n2,7.1,1\n3,8,1\n");
    static const char *const commands[] = {
        "fit 'a[set] + b*t' one.csv two.csv --y S --param 'a[set]=0' --param b=0 --json",
        "fit 'a[set] + b*t' one.csv two.csv --y 'S [mM]' --param a=[1,2] --param b=0 --json",
        "fit 'a[which] + b*t' both.csv --y S --param 'a[which]=[5,6]' --param b=0 --json",
        ("fit 'a[which] + b*t' both.csv --y S --param 'a[which]=0' --param b=0 --json --chain "
         "'levenberg_marquardt(gauss_newton)'")};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        works(commands[i]);
        double tolerance = i == 3 ? 1e-6 : 1e-12;
        check("params", "b", slope, tolerance);
        check("params", "a", mean[0] - 1.5 * slope, tolerance);
        const char *second = strchr(strstr(strstr(out, "\"params\""), "\"a\""), ',') + 1;
        near(strtod(second, NULL), mean[1] - 1.5 * slope, tolerance);
        check("", "dof", 5, 0);
    }
    works(
        "fit 'a[set] + b*t' one.csv two.csv --y S --param 'a[set]=0' --param b=0 --plot s.svg --out s.safetensors");
    slurp("s.svg", out, sizeof out);
    assert_non_null(strstr(out, "S [mM]"));
    assert_non_null(strstr(out, "t [s]"));
    assert_non_null(strstr(out, ">one.csv<"));
    assert_non_null(strstr(out, ">two.csv<"));
    put("new.csv", "t,set\n10,1\n");
    works("predict s.safetensors new.csv --out p.csv");
    slurp("p.csv", out, sizeof out);
    near(strtod(strchr(out, '\n') + 1, NULL), mean[1] + 8.5 * slope, 1e-9);
}

/* The files are of numpy.savez and savez_compressed. */
static void arrays_of_numpy_and_safetensors_are_tables(void **state)
{
    (void)state;
    char command[400];
    static const char *const files[] = {GD_TEST_DIR "/cli/tables/line.npz",
                                        GD_TEST_DIR "/cli/tables/line_packed.npz", "line.safetensors"};
    static const double x[] = {0, 1, 2, 3, 4}, y[] = {1.1, 2.9, 5.2, 6.8, 9.1}, s[] = {1, 1, 2, 2, 1};
    gd_archive *archive = gd_archive_new(ctx);
    int64_t five = 5;
    assert_int_equal(gd_archive_put(archive, "x", gd_from_f64(ctx, GD_F64, 1, &five, x)), GD_OK);
    assert_int_equal(gd_archive_put(archive, "y", gd_from_f64(ctx, GD_F64, 1, &five, y)), GD_OK);
    assert_int_equal(gd_archive_put(archive, "s", gd_from_f64(ctx, GD_F32, 1, &five, s)), GD_OK);
    assert_int_equal(gd_archive_save(archive, "line.safetensors"), GD_OK);
    gd_archive_free(archive);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        (void)snprintf(command, sizeof command, "fit 'a + b*x' %s --param a=0 --param b=0 --sigma s --json",
                       files[i]);
        works(command);
        check("params", "a", SIGMA_A, 1e-10);
        check("params", "b", SIGMA_B, 1e-10);
    }
    gd_tensor *matrix = gd_transpose(gd_stack((gd_tensor *[]){gd_from_f64(ctx, GD_F64, 1, &five, x),
                                                              gd_from_f64(ctx, GD_F64, 1, &five, y)},
                                              2, 0, NULL),
                                     0, 1);
    assert_int_equal(gd_npy_save(matrix, "line.npy"), GD_OK);
    works("fit 'a + b*c1' line.npy --y c2 --param a=0 --param b=0 --json --out line_fit.safetensors");
    check("params", "a", LINE_A, 1e-10);
    fails("fit 'a + b*c1' line.npy --y c2 --param a=0 --param b=0 --separator ,", 2, "--separator: ");
    works("predict line_fit.safetensors line.npy --score");
}

/* Every prefix, and every byte changed, is refused or read, and nothing worse. */
static void damaged_archives_of_numpy_are_refused(void **state)
{
    (void)state;
    static const char *const files[] = {GD_TEST_DIR "/cli/tables/line.npz",
                                        GD_TEST_DIR "/cli/tables/line_packed.npz"};
    for (size_t k = 0; k < 2; k++) {
        char bytes[2048];
        FILE *f = fopen(files[k], "rb");
        size_t size = fread(bytes, 1, sizeof bytes, f);
        fclose(f);
        assert_true(size > 100 && size < sizeof bytes);
        for (size_t i = 0; i < 2 * size; i += 1 + (size_t)(test_share() > 1)) {
            bool cut = i >= size;
            bytes[i % size] ^= cut ? 0 : 0x55;
            put_bytes("broken.npz", bytes, cut ? i - size : size);
            const char *paths[] = {"broken.npz"};
            gd_csv *csv = gd__table_load(ctx, paths, 1, NULL);
            if (cut) assert_null(csv);
            double v[5];
            for (int c = 0; csv && c < gd__csv_columns(csv) && gd__csv_rows(csv) == 5; c++)
                if (gd__csv_numbers(csv, c, true, v)) gd_clear_error(ctx);
            gd__csv_free(csv);
            gd_clear_error(ctx);
            bytes[i % size] ^= cut ? 0 : 0x55;
        }
    }
}

/* own1 to own5 were written by Python's zipfile: stored, packed, with a comment, nothing inside, an array of zeros.  In own6, 12 KB, two
 * hundred names lead to the 900 bytes of one array of 800 KB. */
static void read_npz(gd_ctx *own, const corpus_file *file)
{
    gd_archive *archive = gd__npz_read(own, "a", file->data, file->size);
    assert_true((archive != NULL) == (gd_error(own) == GD_OK));
    gd_clear_error(own);
    if (strstr(file->path, "own")) assert_true((archive == NULL) == (strstr(file->path, "own6") != NULL));
    gd_archive_free(archive);
}

static void the_corpus_of_archives_is_read_without_harm(void **state)
{
    (void)state;
    replay_corpus(ctx, GD_TEST_DIR "/file/corpus/zip", 6, read_npz);
}

static void residuals_of_the_fitted_rows_are_written(void **state)
{
    (void)state;
    put("gaps.csv", "x,y,s\n0,1.1,1\n9,,1\n1,2.9,1\n\n2,5.2,2\n3,6.8,2\n4,9.1,1\n");
    works("fit 'a + b*x' gaps.csv --param a=0 --param b=0 --missing drop --residuals r.csv");
    slurp("r.csv", out, sizeof out);
    assert_ptr_equal(strstr(out, "line,x,y,fitted,residual,standardized\n"), out);
    const double x[] = {0, 1, 2, 3, 4}, y[] = {1.1, 2.9, 5.2, 6.8, 9.1}, lines[] = {2, 4, 6, 7, 8};
    for (int i = 0; i < 5; i++) {
        double fitted = LINE_A + LINE_B * x[i], sigma = sqrt(LINE_RSS / 3);
        const double want[] = {lines[i], x[i], y[i], fitted, y[i] - fitted, (y[i] - fitted) / sigma};
        for (int k = 0; k < 6; k++)
            if (!(fabs(cell(out, i + 1, k) - want[k]) < 1e-9))
                fail_msg("row %d, %d: %g, want %g", i, k, cell(out, i + 1, k), want[k]);
    }
    works("fit 'a + b*x' gaps.csv --param a=0 --param b=0 --missing drop --sigma s --residuals r.csv");
    slurp("r.csv", out, sizeof out);
    double sigma = sqrt(SIGMA_RSS / 3);
    assert_true(fabs(cell(out, 3, 5) - (5.2 - SIGMA_A - 2 * SIGMA_B) / 2 / sigma) < 1e-6);
    fails("fit 'a*x' gaps.csv --param a=1 --residuals gaps.csv", 2, "are the same file");
}

/* Bands of a straight line from the textbook: s sqrt(1/n + (x - mean)^2 / Sxx), and with 1 more under the root. */
static void a_saved_fit_predicts_with_its_bands(void **state)
{
    (void)state;
    const double t3 = 3.182446305284263, s = sqrt(LINE_RSS / 3);
    put("line.csv", line_data);
    put("new.csv", "z,x,a\n1,10,7\n2,-3.5,7\n");
    works("fit 'a + b*x' line.csv --param a=0 --param b=0 --out fit.safetensors");
    works("predict fit.safetensors new.csv");
    assert_ptr_equal(strstr(out, "y,confidence_low,confidence_high,prediction_low,prediction_high\n"), out);
    const double x[] = {10, -3.5};
    for (int i = 0; i < 2; i++) {
        double value = LINE_A + LINE_B * x[i], core = 1.0 / 5 + (x[i] - 2) * (x[i] - 2) / 10;
        const double half[] = {t3 * s * sqrt(core), t3 * s * sqrt(1 + core)};
        near(cell(out, i + 1, 0), value, 1e-9);
        for (int k = 0; k < 2; k++) {
            near(cell(out, i + 1, 1 + 2 * k), value - half[k], 1e-8);
            near(cell(out, i + 1, 2 + 2 * k), value + half[k], 1e-8);
        }
    }
    works("predict fit.safetensors line.csv --score --json");
    check("", "r2", LINE_R2, 1e-9);
    check("", "rmse", sqrt(LINE_RSS / 5), 1e-9);
    works("predict fit.safetensors line.csv --score --target s");
    works("predict fit.safetensors new.csv --json --out p.json");
    fails("predict fit.safetensors new.csv --probabilities", 2,
          "--probabilities is for models of gradus train");
    fails("predict fit.safetensors new.csv --device cpu", 2, "--device is for models of gradus train");
    fails("predict fit.safetensors new.csv --target y", 2, "--target is for --score");
    fails("predict fit.safetensors new.csv --score", 2, "new.csv: no column 'y'");
    put("other.csv", "u\n1\n");
    fails("predict fit.safetensors other.csv", 2, "other.csv: no column 'x'");
}

/* Functions, constants and deviations come along; where the deviations of new rows are not known there is no band for them. */
static void what_the_model_needs_is_in_the_saved_fit(void **state)
{
    (void)state;
    put("line.csv", line_data);
    put("f.gd", "rise(x, k) = k * x; # a function\n");
    put("new.csv", "x\n5\n");
    put("known.csv", "x,s\n5,3\n");
    works(
        "fit 'p[0] + rise(x, m*p[1])' line.csv --param p=[0,0] --fix m=2 --def f.gd --sigma s --absolute-sigma --out "
        "fit.safetensors");
    (void)remove("f.gd");
    assert_int_equal(gradus("predict fit.safetensors new.csv"), 0);
    assert_non_null(strstr(err, "no column 's' in new.csv: no prediction bands"));
    near(cell(out, 1, 0), SIGMA_A + 5 * SIGMA_B, 1e-9);
    double low = cell(out, 1, 1), value = cell(out, 1, 0);
    assert_true(isinf(cell(out, 1, 3)) && isinf(cell(out, 1, 4)));
    works("predict fit.safetensors known.csv");
    near(cell(out, 1, 1), low, 1e-12);
    double z = 1.959963984540054, error = (value - low) / z;
    near(cell(out, 1, 4), value + z * sqrt(error * error + 9), 1e-9);
    works("minimize '(x-1)^2' --param x=0 --out point.safetensors");
    fails("predict point.safetensors new.csv", 1, "point.safetensors: not a model of gradus train");
}

/* Numbers of statsmodels: see tests/optim/solve/test_robust.c. */
static void outliers_pull_less_by_another_loss_and_are_listed(void **state)
{
    (void)state;
    put("rough.csv",
        "x,y\n0,1.041\n1,1.583\n2,1.836\n3,2.474\n4,5.902\n5,3.483\n6,3.871\n7,4.502\n8,4.996\n9,5.47\n10,3.895\n11,"
        "6.46\n");
    works(
        "fit 'a + b*x' rough.csv --param a=0 --param b=0 --loss tukey:0.04454060126087615 --json --out t.safetensors");
    check("params", "a", 1.0341100374872734, 1e-12);
    check("params", "b", 0.4923831283927873, 1e-12);
    check("", "scale", 0.04454060126087615, 1e-15);
    assert_non_null(strstr(out, "\"r2\": null"));
    assert_non_null(strstr(out, "\"aicc\": null"));
    assert_non_null(strstr(out, "\"loss\": \"tukey\""));
    assert_non_null(strstr(out, "\"outliers\": [{\"line\": "));
    works("fit 'a + b*x' rough.csv --param a=0 --param b=0 --loss huber --residuals r.csv");
    assert_non_null(strstr(out, "more than 3 standard deviations off: line 6 ("));
    assert_null(strstr(out, "R2"));
    assert_null(strstr(out, "AIC"));
    slurp("r.csv", out, sizeof out);
    assert_non_null(strstr(out, ",standardized,weight\n"));
    /* huber: weight 1.345 / |z|, or 1 */
    near(cell(out, 5, 6), 1.345 / fabs(cell(out, 5, 5)), 1e-12);
    assert_true(cell(out, 1, 6) == 1 || fabs(cell(out, 1, 5)) > 1.345);
    fails("compare t.safetensors t.safetensors", 2,
          "t.safetensors: fitted with the loss tukey: no likelihoods");
    works("predict t.safetensors rough.csv --score");
    works("fit 'a + b*x' rough.csv --param a=2 --param b=0 --loss cauchy --bound 'a>1.5'");
    assert_non_null(strstr(out, "nothing is said but the bounds"));
    fails("fit 'a*x' rough.csv --param a=1 --loss hubert", 2, "'hubert' is none of squares, huber");
    fails("fit 'a*x' rough.csv --param a=1 --loss huber:", 2,
          "--loss huber:: the scale is a positive number");
    fails("fit 'a*x' rough.csv --param a=1 --loss huber:-1", 2, "the scale is a positive number");
    fails("fit 'a*x' rough.csv --param a=1 --loss squares:2", 2, "squares have no scale");
    fails("fit 'a*x' rough.csv --param a=1 --loss huber --chain 'lbfgs | strong_wolfe'", 2,
          "--chain minimises squares");
    put("few.csv", "x,y\n1,2\n");
    fails("fit 'a*x' few.csv --param a=1 --loss huber", 1, "say nothing of their scale");
}

/* Long tables go by ranges of rows, unless the model looks at several rows at once; threads change no bit. */
static void long_tables_are_fitted_by_ranges_of_rows(void **state)
{
    (void)state;
    FILE *f = fopen("long.csv", "w");
    assert_non_null(f);
    fprintf(f, "x,y,s,w\n");
    for (int i = 0; i < 4000; i++) {
        double x = i / 400.0, wave = ((i * 7919) % 1000 - 499.5) / 1000;
        fprintf(f, "%.17g,%.17g,%g,%d\n", x, 3 * exp(-0.4 * x) + 0.5 + wave, i % 2 ? 0.5 : 1.0, i % 3);
    }
    assert_int_equal(fclose(f), 0);
    static const char *const models[] = {"a*exp(-b*x)+c", "k*a*exp(-b*x)+c"};
    static const char *const more[] = {"", " --sigma s", " --loss huber",
                                       " --chain 'levenberg_marquardt(gauss_newton)'"};
    for (int m = 0; m < 2; m++)
        for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
            char command[300], *alone;
            /* sum(x) - sum(x) looks at all rows, and says nothing */
            (void)snprintf(
                command, sizeof command,
                "fit '%s+0*(sum(x)-sum(x))' long.csv --param a=1 --param b=1 --param c=0 --json%s%s",
                models[m], m ? " --fix k=1" : "", more[i]);
            works(command);
            double a = json_number_in("params", "a"), rss = json_number_in("", "rss");
            (void)snprintf(command, sizeof command,
                           "fit '%s' long.csv --param a=1 --param b=1 --param c=0 --json --threads 1%s%s",
                           models[m], m ? " --fix k=1" : "", more[i]);
            works(command);
            near(json_number_in("params", "a"), a, i == 3 ? 1e-7 : 1e-10);
            near(json_number_in("", "rss"), rss, 1e-11);
            alone = strdup(out);
            *strstr(alone, "\"seconds\"") = 0;
            (void)snprintf(command, sizeof command,
                           "fit '%s' long.csv --param a=1 --param b=1 --param c=0 --json --threads 3%s%s",
                           models[m], m ? " --fix k=1" : "", more[i]);
            works(command);
            assert_memory_equal(out, alone, strlen(alone));
            free(alone);
        }
}

/* Puromycin as in tests/optim/solve/test_intervals.c, where the numbers come from; the bootstrap does not depend on threads. */
static void intervals_are_by_profile_or_bootstrap_on_request(void **state)
{
    (void)state;
    char first[4096];
    put("rate.csv",
        "c,y\n0.02,76\n0.02,47\n0.06,97\n0.06,107\n0.11,123\n0.11,139\n0.22,159\n0.22,152\n0.56,191\n0.56,201\n1.10,"
        "207\n1.10,200\n");
    works("fit 'V*c/(K+c)' rate.csv --param V=200 --param K=0.05 --intervals profile --json");
    double low, high;
    const char *at = strstr(out, "\"interval\": {\"V\": [");
    assert_non_null(at);
    assert_int_equal(sscanf(strchr(at, '['), "[%lf, %lf]", &low, &high), 2);
    near(low, 197.3019329, 1e-7);
    near(high, 229.2890551, 1e-7);
    assert_non_null(strstr(out, "\"intervals\": \"profile\""));
    works(
        "fit 'V*c/(K+c)' rate.csv --param V=200 --param K=0.05 --intervals bootstrap:300 --threads 1 --seed 5");
    assert_non_null(strstr(out, "intervals by 300 resampled sets of rows, BCa"));
    *strstr(out, "steps, ") = 0;
    snprintf(first, sizeof first, "%s", out);
    works(
        "fit 'V*c/(K+c)' rate.csv --param V=200 --param K=0.05 --intervals bootstrap:300 --threads 3 --seed 5");
    *strstr(out, "steps, ") = 0;
    assert_string_equal(out, first);
    works("fit 'V*c/(K+c)' rate.csv --param V=200 --param K=0.05 --intervals bootstrap:300 --seed 6");
    *strstr(out, "steps, ") = 0;
    assert_string_not_equal(out, first);
    works("fit 'V*c/(K+c)' rate.csv --param V=200 --param K=0.05 --intervals bootstrap:residuals:200");
    assert_non_null(strstr(out, "200 resampled sets of residuals"));
    works("fit 'V*c/(K+c)' rate.csv --param V=200 --param K=0.05 --loss huber --intervals bootstrap:100");
    works("fit 'V*c/(K+c)' rate.csv --param V=240 --param K=0.05 --bound 'V>230' --intervals bootstrap:100");
    assert_non_null(strstr(out, "at its bound   230 .. "));
    fails("fit 'V*c/(K+c)' rate.csv --param V=1 --param K=1 --intervals bayes", 2,
          "'bayes' is none of normal, profile");
    fails("fit 'V*c/(K+c)' rate.csv --param V=1 --param K=1 --intervals profile:3", 2,
          "'profile:3' is none of");
    fails("fit 'V*c/(K+c)' rate.csv --param V=1 --param K=1 --intervals bootstrap:7", 2,
          "'7' is neither a number of resamples");
    fails("fit 'V*c/(K+c)' rate.csv --param V=1 --param K=1 --intervals bootstrap:", 2, "'' is neither");
    fails("fit 'V*c/(K+c)' rate.csv --param V=1 --param K=1 --intervals profile --loss huber", 2,
          "is for squares");
    put("two.csv", "x,y\n1,2\n2,3\n");
    fails("fit 'a + b*x' two.csv --param a=1 --param b=1 --intervals bootstrap", 1,
          "wants more rows than parameters");
}

/* ---- where a fit starts ---- */

/* count rows of x from low to high, y(x) and a little that looks like chance. */
static void put_curve(const char *name, double (*y)(double), double low, double high, int count, double noise)
{
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    fprintf(f, "x,y\n");
    for (int i = 0; i < count; i++) {
        double x = low + (high - low) * i / (count - 1);
        fprintf(f, "%.17g,%.17g\n", x, y(x) + noise * (((i * 7919) % 1000) / 499.5 - 1));
    }
    assert_int_equal(fclose(f), 0);
}

static double falling(double x) { return 5 * exp(-0.6 * x) + 2; }
static double rising(double x) { return 3 * (1 - exp(-x / 2.5)); }
static double powered(double x) { return 0.03 * pow(x, 2.7); }
static double bell(double x) { return 120 * exp(-pow((x - 417) / 9.5, 2) / 2) + 15; }
static double dip(double x) { return 100 - 40 / (1 + pow((x - 355) / 4, 2)); }
static double turn(double x) { return 7 / (1 + exp(-3 * (x - 6.2))) - 2; }
static double wave(double x) { return 2.5 * sin(2 * M_PI * 1.37 * x + 0.8) + 4; }
static double straight(double x) { return 1e5 - 3e3 * x; }

/* The same curve in the ways people write it; the parameters' names say nothing. */
/* The sum of squares that a fit prints. */
static double rss_of(const char *arguments)
{
    works(arguments);
    const char *at = strstr(out, "\"rss\": ");
    assert_non_null(at);
    return strtod(at + 7, NULL);
}

/* Two Gaussians: the shape of one peak leads to a minimum that is far above the one that the given start leads to. */
static void the_given_start_is_kept_where_it_ends_lower_than_the_guess(void **state)
{
    (void)state;
    static const double truth[][6] = {{1000, 3.3, 0.95, 874, 16.1, 0.51}, {1000, 7.1, 1.94, 556, 11.2, 0.91}};
    static const char *const starts[] = {
        " --param a=100 --param m=4 --param s=3 --param b=100 --param n=15.7 --param t=3 --json",
        " --param a=100 --param m=8 --param s=3 --param b=100 --param n=11.6 --param t=3 --json"};
    static const char *const model = "fit 'a*exp(-(x-m)^2/(2*s^2)) + b*exp(-(x-n)^2/(2*t^2))' two.csv";
    for (int k = 0; k < 2; k++) {
        const double *t = truth[k];
        FILE *f = fopen("two.csv", "w");
        assert_non_null(f);
        (void)fprintf(f, "x,y\n");
        for (int i = 0; i < 40; i++) {
            double x = 0.5 * i, y = t[0] * exp(-pow((x - t[1]) / t[2], 2) / 2);
            y += t[3] * exp(-pow((x - t[4]) / t[5], 2) / 2) + 10 * sin(37.0 * i);
            (void)fprintf(f, "%.3f,%.1f\n", x, y);
        }
        (void)fclose(f);
        char plain[400], guessed[400];
        (void)snprintf(plain, sizeof plain, "%s%s", model, starts[k]);
        (void)snprintf(guessed, sizeof guessed, "%s%s --guess", model, starts[k]);
        double least = rss_of(plain);
        assert_true(rss_of(guessed) <= least * (1 + 1e-9));
        assert_non_null(strstr(out, "\"guess\": \"as given\""));
        (void)snprintf(guessed, sizeof guessed, "%s%s --guess --starts 3", model, starts[k]);
        assert_true(rss_of(guessed) <= least * (1 + 1e-9));
        for (int steps = 1; steps < 20; steps += 3) { /* and when neither may go to its end */
            (void)snprintf(plain, sizeof plain, "%s%s --steps %d", model, starts[k], steps);
            (void)snprintf(guessed, sizeof guessed, "%s%s --guess --steps %d", model, starts[k], steps);
            least = rss_of(plain);
            assert_true(rss_of(guessed) <= least * (1 + 1e-9));
        }
    }
}

static void starts_are_guessed_for_known_shapes(void **state)
{
    (void)state;
    static const struct {
        double (*y)(double);
        double low, high, noise;
        int params;
        const char *model, *shape, *param;
        double want;
    } cases[] = {
        {falling, 0, 10, 0.05, 3, "p*exp(-q*x)+r", "exponential", "q", 0.6},
        {falling, 0, 10, 0.05, 3, "p+q*2^(-x/r)", "exponential", "r", 0.6931471805599453 / 0.6},
        {rising, 0, 10, 0.05, 2, "p*(1-exp(-x/q))", "exponential", "q", 2.5},
        {powered, 0.1, 10, 0.02, 2, "p*x^q", "power", "q", 2.7},
        {bell, 300, 500, 2, 4, "p*exp(-(x-q)^2/(2*r^2))+s", "peak", "q", 417},
        {bell, 300, 500, 2, 4, "p+q/(r*sqrt(2*pi))*exp(-0.5*((x-s)/r)^2)", "peak", "q",
         120 * 9.5 * 2.5066282746310002},
        {dip, 300, 500, 0.5, 4, "p+q/(1+((x-r)/s)^2)", "peak", "r", 355},
        {turn, 0, 10, 0.1, 4, "p/(1+exp(-q*(x-r)))+s", "step", "r", 6.2},
        {wave, 0, 50, 0.5, 4, "p*sin(2*pi*q*x+r)+s", "sine", "q", 1.37},
        {wave, 0, 50, 0.5, 4, "p+q*cos(r*x-s)", "sine", "r", 2 * M_PI * 1.37},
        {straight, 0, 10, 100, 2, "p+q*x", "line", "q", -3e3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char arguments[300];
        put_curve("c.csv", cases[i].y, cases[i].low, cases[i].high, 300, cases[i].noise);
        (void)snprintf(arguments, sizeof arguments, "fit '%s' c.csv --guess --param p --param q%.*s --json",
                       cases[i].model, 10 * (cases[i].params - 2), " --param r --param s");
        works(arguments);
        double got = json_number_in("params", cases[i].param);
        if (!(fabs(fabs(got) - fabs(cases[i].want)) <= 0.02 * fabs(cases[i].want)))
            fail_msg("%s: %s is %g, want %g", cases[i].model, cases[i].param, got, cases[i].want);
        (void)snprintf(arguments, sizeof arguments, "\"guess\": \"%s\"", cases[i].shape);
        if (!strstr(out, arguments)) fail_msg("%s: no %s", cases[i].model, arguments);
    }
    put("line.csv", line_data);
    works("fit 'a + b*x' line.csv --guess --param a=7 --param b --bound 'b>0'");
    assert_non_null(strstr(out, "start guessed: line"));
    fails("fit 'a*x + b*s' line.csv --guess --param a --param b", 2, "--guess knows shapes over one column");
    fails("fit 'a[0]*x' line.csv --guess --param a=[1,2]", 2, "each one number");
    fails("fit 'a*x' line.csv --param a", 2, "--param: NAME=VALUE expected, 'a' found");
    fails("fit 'a*x' line.csv --param a --guess --chain 'lbfgs | strong_wolfe'", 2,
          "--guess is for the method of fit itself");
    put("two.csv", "x,y\n1,2\n2,3\n");
    fails("fit 'a*x' two.csv --param a --guess", 2, "--guess wants three rows");
    fails("fit 'sqrt(-1-a^2)*x' line.csv --param a --guess", 2, "finite for none of the shapes");
}

/* A sine has a minimum every half turn: from 1 the frequency 5 is out of reach. */
static void several_starts_find_the_lowest_minimum(void **state)
{
    (void)state;
    char first[4096];
    FILE *f = fopen("s.csv", "w");
    assert_non_null(f);
    fprintf(f, "x,y\n");
    for (int i = 0; i < 60; i++) fprintf(f, "%g,%.17g\n", 0.1 * i, 2 * sin(5 * 0.1 * i));
    assert_int_equal(fclose(f), 0);
    works("fit 'a*sin(w*x)' s.csv --param a=1 --param w=1 --json");
    assert_true(fabs(json_number_in("params", "w") - 5) > 1);
    works(
        "fit 'a*sin(w*x)' s.csv --param a=1 --param w=1 --bound '0<w<10' --bound '0<a<5' --starts 30 --json");
    check("params", "w", 5, 1e-9);
    check("params", "a", 2, 1e-9);
    check("", "starts", 30, 0);
    assert_true(json_number("agreed") >= 1);
    works("fit 'a*sin(w*x)' s.csv --param a=1 --param w=1 --starts 30 --seed 4"); /* around the start */
    assert_non_null(strstr(out, "best of 30 starts, "));
    *strstr(out, "steps, ") = 0;
    snprintf(first, sizeof first, "%s", out);
    works("fit 'a*sin(w*x)' s.csv --param a=1 --param w=1 --starts 30 --seed 4 --threads 1");
    *strstr(out, "steps, ") = 0;
    assert_string_equal(out, first);
    works("fit 'a*sin(w*x)' s.csv --param a=1 --param w=1 --bound '0.1<w<1000' --starts 20 --loss huber:1");
    fails("fit 'a*x' s.csv --param a=1 --starts 0", 2, "--starts");
    fails("fit 'a*x' s.csv --param a=1 --starts 3 --chain 'lbfgs | strong_wolfe'", 2,
          "--starts is for the method of fit itself");
}

static void a_constant_y_has_no_r2(void **state)
{
    (void)state;
    put("flat.csv", "x,y\n0,5\n1,5\n2,5\n");
    works("fit 'a + b*x' flat.csv --param a=0 --param b=0");
    assert_non_null(strstr(out, "R2 not defined for a constant y"));
    assert_null(strstr(out, "nan"));
    works("fit 'a + b*x' flat.csv --param a=0 --param b=0 --json");
    assert_non_null(strstr(out, "\"r2\": null"));
}

static void tables_and_pictures_are_made(void **state)
{
    (void)state;
    put("line.csv", line_data);
    works("fit 'a + b*x' line.csv --param a=0 --param b=0 --plot fit.svg --out fit.safetensors");
    assert_non_null(strstr(out, "parameter"));
    assert_non_null(strstr(out, "95 % interval"));
    assert_non_null(strstr(out, "residual standard deviation"));
    assert_int_equal(access("fit.svg", F_OK), 0);
    works("fit 'a*s + b*x' line.csv --param a=0 --param b=0 --plot two.png");
    works("eval 'b' --param b=@fit.safetensors:b --json");
    check("", "value", LINE_B, 1e-10);
    put("odd.csv", "the time;y\n0;1\n1;3\n2;5.1\n");
    works("fit 'a + b*`the time`' odd.csv --param a=0 --param b=0 --json");
    put("bare.csv", "0,1\n1,3\n2,5.1\n");
    works("fit 'a + b*c1' bare.csv --y c2 --param a=0 --param b=0 --no-header --json");
}

/* The curve lies over the points, bands under them; long tables make no large files. */
static void pictures_show_errors_bands_and_residuals(void **state)
{
    (void)state;
    put("line.csv", line_data);
    works("fit 'a + b*x' line.csv --param a=0 --param b=0 --plot fit.svg");
    slurp("fit.svg", out, sizeof out);
    const char *band = strstr(out, "95 % of new measurements"),
               *circle = strstr(out, "<circle class=\"a i4\""),
               *curve = strstr(out, "<path class=\"l i5\" stroke-width=\"2\"");
    assert_true(band && circle && curve && strstr(out, ">residual</text>"));
    assert_true(strstr(out, "fill-opacity=\"0.22\"") < circle && circle < curve);
    works("fit 'a + b*x' line.csv --param a=0 --param b=0 --sigma s --plot bars.svg --dark");
    slurp("bars.svg", out, sizeof out);
    assert_non_null(strstr(out, "<path class=\"l i4\" stroke-width=\"1.2\""));
    assert_null(strstr(out, "new measurements"));
    assert_null(strstr(out, "prefers-color-scheme"));
    works("fit 'a*exp(b*x)' line.csv --param a=1 --param b=0.1 --plot log.pdf --log y");
    works("fit 'a*s + b*x' line.csv --param a=0 --param b=0 --plot two.pdf --dark");
    slurp("two.pdf", out, sizeof out);
    assert_memory_equal(out, "%PDF", 4);
    put_curve("many.csv", falling, 0, 10, 60000, 0.5);
    works("fit 'a*exp(-b*x)+c' many.csv --param a=4 --param b=1 --param c=0 --plot many.svg");
    struct stat info;
    assert_int_equal(stat("many.svg", &info), 0);
    if (info.st_size > 500000) fail_msg("%ld bytes", (long)info.st_size);
    fails("fit 'a*x' line.csv --param a=1 --log x", 2, "--log is for --plot");
    fails("fit 'a*x' line.csv --param a=1 --dark", 2, "--dark is for --plot");
    fails("fit 'a*x' line.csv --param a=1 --plot p.svg --log z", 2, "'z' is none of");
    put("below.csv", "x,y\n-1,2\n1,3\n2,5\n");
    assert_int_equal(gradus("fit 'a*x' below.csv --param a=1 --plot p.svg --log x"), 1);
    assert_non_null(strstr(err, "-1 has no place on a logarithmic x axis"));
    assert_non_null(strstr(out, "parameter")); /* the fit is not lost for its picture */
    works("minimize '(x-1)^2' --param x=0 --plot run.pdf --dark");
    fails("minimize '(x-1)^2' --param x=0 --dark", 2, "--dark is for --plot");
}

static void one_row_is_fitted_without_errors_to_give(void **state)
{
    (void)state;
    put("one.csv", "x,y\n2,6\n");
    works("fit 'b*x' one.csv --param b=1 --json");
    check("params", "b", 3, 1e-10);
    admits("fit 'a + b*x' one.csv --param a=0 --param b=1", "a and b cannot be told apart");
    assert_non_null(strstr(out, "no degrees of freedom left"));
    assert_null(strstr(out, "nan"));
}

static void broken_input_is_named(void **state)
{
    (void)state;
    put("line.csv", line_data);
    put("line2.csv", line_data);
    put("bad.csv", "x,y\n1,2\n3,abc\n");
    put("nan.csv", "x,y\n1,2\n3,NaN\n");
    put("gap.csv", "x,y\n1,2\n3,\n");
    put("ragged.csv", "x,y\n1,2\n3\n");
    put("none.csv", "x,y\n");
    put("empty.csv", "");
    put("zero.csv", "x,y,s\n1,2,0\n");
    put("wide.csv", "x,y\n1,2\n");
    put("other.csv", "x,y,t\n1,2,0\n");
    put("second.csv", "s,y,x\n1,2,0\n1,abc,0\n");
    put("sets.csv", "x,y,set\n1,2,0\n2,3,0\n");
    put("sets2.csv", "x,y,set\n1,2,0\n2,3,0\n");
    put("half.csv", "x,y\n1,2\n0.5,3\n");
    put("zeros.npz", "PK");
    works("minimize 'p^2' --param p=1 --out point.safetensors");
    static const char *const tail = " --param a=0 --param b=0";
    static const struct {
        const char *arguments;
        int code;
        const char *text;
    } cases[] = {
        {"'a+b*x' missing.csv", 1, "missing.csv: cannot open: No such file or directory"},
        {"'a+b*x' .", 1, ".: cannot read: Is a directory"},
        {"'a+b*x' empty.csv", 1, "empty.csv: the file is empty"},
        {"'a+b*x' none.csv", 1, "none.csv: no rows"},
        {"'a+b*x' bad.csv", 1, "bad.csv: line 3, column 'y': 'abc' is not a number"},
        {"'a+b*x' nan.csv", 1, "nan.csv: line 3, column 'y': 'NaN' stands for a missing number"},
        {"'a+b*x' gap.csv", 1, "gap.csv: line 3, column 'y': the cell is empty"},
        {"'a+b*x' ragged.csv", 1, "ragged.csv: line 3: 1 cell, but line 1 has 2"},
        {"'a+b*x' line.csv --y z", 2, "line.csv: no column 'z', the columns are x, y, s"},
        {"'a+b*q' line.csv", 2, "expression: column 5: unknown name 'q'"},
        {"'a*x' line.csv", 2, "--param b: the model does not use it"},
        {"'a+b*x' line.csv --param x=1", 2, "--param: 'x' is also a column of line.csv"},
        {"'a+b*x' line.csv --bound 'c>0'", 2, "--bound: no parameter 'c'"},
        {"'a+b*x' line.csv --bound 'b>1'", 2, "--bound: b starts at 0, outside its bound"},
        {"'a+b*x' line.csv --sigma s --weights s", 2, "--weights and --sigma say the same"},
        {"'a+b*x' zero.csv --sigma s", 1, "zero.csv: line 2, column 's': 0 is not positive"},
        {"'a+b*x' line.csv --plot x.gif", 2, "x.gif: a picture ends in .svg, .png or .pdf"},
        {"'a+b*x' line.csv --separator ab", 2, "--separator: 'ab' is not one character"},
        {"'a+b*log(x-9)' line.csv", 1, "not finite"},
        {"'a+b*x' line.csv more.csv", 1, "more.csv: cannot open: No such file or directory"},
        {"'a+b*x' line.csv wide.csv", 1, "wide.csv has 2 columns, line.csv has 3"},
        {"'a+b*x' line.csv other.csv", 1, "other.csv: no column 's', which line.csv has"},
        {"'a+b*x' sets.csv sets2.csv", 2,
         "sets.csv has a column 'set', which is to be the number of the file"},
        {"'a+b*x' line.csv second.csv", 1, "second.csv: line 3, column 'y': 'abc' is not a number"},
        {"'a+b*x' line.csv line2.csv --sigma x", 1, "line.csv: line 2, column 'x': 0 is not positive"},
        {"'a+b*x+c[set]' line.csv line2.csv --param c[set]=[1,2,3]", 2,
         "--param c: 3 values for the 2 of 'set'"},
        {"'a+b*x+c[x]' half.csv --param c[x]=1", 1,
         "half.csv: line 3, column 'x': 0.5 is not the number of a set"},
        {"'a+b*x+c[q]' line.csv --param c[q]=1", 2, "line.csv: no column 'q'"},
        {"'a+b*x' line.csv --param c[x=1", 2, "--param: 'NAME[COLUMN]=VALUE' expected"},
        {"'a+b*x' zeros.npz", 1, "zeros.npz: not an .npz file, or cut off"},
        {"'a+b*x' point.safetensors", 2,
         "point.safetensors: 'p' has 0 axes; vectors and matrices are columns"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, "fit %s%s", cases[i].arguments, tail);
        fails(arguments, cases[i].code, cases[i].text);
    }
    fails("fit 'x' line.csv", 2, "no --param given");
    fails("fit 'a*x' line.csv --param a=1 --device gpu:77", 1, "device 'gpu:77'");
    fails("fit 'a*x' line.csv --param a=1 --device tpu", 1, "device 'tpu' is not one of 'cpu', 'gpu'");
    fails("fit 'a*x'", 2, "'MODEL' DATA.csv [MORE.csv...] is missing");
}

/* The shipped data set, as ./dev run shows it: the parameters it was made with lie within their errors. */
static void the_shipped_decay_is_recovered(void **state)
{
    (void)state;
    works("fit 'a*exp(-b*t)+c' " GD_TEST_DIR
          "/../examples/data/decay.csv --y y --param a=1 --param b=1 --param c=0 --json");
    check("params", "a", 5, 0.04);
    check("params", "b", 0.5, 0.08);
    check("params", "c", 1, 0.08);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(several_tables_share_parameters_and_have_their_own),
        TEST(arrays_of_numpy_and_safetensors_are_tables),
        TEST(damaged_archives_of_numpy_are_refused),
        TEST(the_corpus_of_archives_is_read_without_harm),
        TEST(residuals_of_the_fitted_rows_are_written),
        TEST(a_saved_fit_predicts_with_its_bands),
        TEST(what_the_model_needs_is_in_the_saved_fit),
        TEST(outliers_pull_less_by_another_loss_and_are_listed),
        TEST(long_tables_are_fitted_by_ranges_of_rows),
        TEST(intervals_are_by_profile_or_bootstrap_on_request),
        TEST(starts_are_guessed_for_known_shapes),
        TEST(the_given_start_is_kept_where_it_ends_lower_than_the_guess),
        TEST(several_starts_find_the_lowest_minimum),
        TEST(a_constant_y_has_no_r2),
        TEST(tables_and_pictures_are_made),
        TEST(pictures_show_errors_bands_and_residuals),
        TEST(one_row_is_fitted_without_errors_to_give),
        TEST(broken_input_is_named),
        TEST(the_shipped_decay_is_recovered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
